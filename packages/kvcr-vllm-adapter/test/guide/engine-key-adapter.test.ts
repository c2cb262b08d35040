/** The example of the adapter guide fulfills the contract, and the guide shows what is tested. */
import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "kvcr-core";
import { keyAdapterSuite } from "kvcr-core/testing";
import { describe, expect, it } from "vitest";
import { type EngineKey, EngineKeyAdapter } from "./engine-key-adapter.js";

const name = (content: number, layer: number): EngineKey => ({
	contentHash: new Uint8Array(32).fill(content),
	layer,
});

/** A worker that holds four blocks, two of them layers of the same tokens. */
function filled() {
	const adapter = new EngineKeyAdapter();
	const known = [name(1, 0), name(2, 0)];
	const colliding = [name(3, 0), name(3, 1)];
	const report = (keys: EngineKey[], removed: boolean) =>
		adapter.inventory({
			keys: keys.map((key) => adapter.encode(key)),
			tier: "DRAM",
			removed,
		});
	report([...known, ...colliding], false);
	return {
		adapter,
		known,
		colliding,
		unknownHash: 1n,
		forget: (key: EngineKey) => report([key], true),
	};
}

keyAdapterSuite({ describe, it }, { name: "engine", create: filled });

describe("the adapter guide", () => {
	const guide = read("../../../../docs/adapter-guide.md");
	const [example = "", fixture = "", suite = ""] = [
		...guide.matchAll(/```ts\n(.*?)```/gs),
	].map((match) => match[1] as string);

	it("shows the example that is tested, in fewer than 60 lines", () => {
		const source = read("./engine-key-adapter.ts");
		// A copy of it must run: the whole file but for its first line, the comment.
		expect(source.slice(source.indexOf("\n") + 1)).toBe(example);
		expect(example.trim().split("\n").length).toBeLessThan(60);
	});

	it("shows the fixture, and the suite in three lines", () => {
		const source = read("./engine-key-adapter.test.ts");
		expect(source).toContain(fixture);
		const lines = suite.trim().split("\n");
		expect(lines).toHaveLength(3);
		for (const line of lines)
			expect(source).toContain(
				line.replace("{ describe, it } from", "{ describe, expect, it } from"),
			);
	});

	it("follows tiers: a key leaves with its last copy", () => {
		const { adapter, known } = filled();
		const key = adapter.encode(known[0] as EngineKey);
		const hash = adapter.decode(key);
		adapter.inventory({ keys: [key], tier: "G3", removed: false });
		adapter.inventory({ keys: [key], tier: "DRAM", removed: true });
		expect(adapter.decodeFromRouter(hash)).toEqual(key);
		adapter.inventory({ keys: [key], tier: "G3", removed: true });
		expect(() => adapter.decodeFromRouter(hash)).toThrow(/no block/);
	});

	it("refuses what would have to be cut to fit, since two keys could become one", () => {
		const { adapter } = filled();
		const contentHash = new Uint8Array(32);
		for (const key of [
			{ contentHash, layer: 2 ** 32 },
			{ contentHash, layer: -1 },
			{ contentHash, layer: 0.5 },
			{ contentHash: new Uint8Array(31), layer: 0 },
			{ contentHash: new Uint8Array(33), layer: 0 },
		])
			expect(() => adapter.encode(key)).toThrow(InvalidArgumentError);
	});

	it("takes the first 8 bytes of the content hash, not the last", () => {
		const contentHash = new Uint8Array(32);
		contentHash[0] = 0xff;
		contentHash[31] = 1;
		const { adapter } = filled();
		expect(adapter.decode(adapter.encode({ contentHash, layer: 7 }))).toBe(
			0xff00_0000_0000_0000n,
		);
	});
});

function read(path: string): string {
	return readFileSync(new URL(path, import.meta.url), "utf8");
}
