import { setImmediate } from "node:timers/promises";
import type { MemoryRegion, RemoteAgent, TransferId } from "kvcr-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NixlTransferAgent } from "../src/index.js";
import { readMetadata, underName } from "../src/metadata.js";
import { createAgent, missingNixl, runChild } from "./helpers.js";
import { oddities } from "./oddities.js";

/** Descriptors with a field that cannot simply be turned into text, as the error wants it. */
const unshowable = (
	["memType", "deviceId", "addr", "stride", "count", "size", "label"] as const
).flatMap((field): [string, unknown][] => [
	[`a symbol for its ${field}`, [{ [field]: Symbol("s") }]],
	[`a bare object for its ${field}`, [{ [field]: Object.create(null) }]],
]);

describe.skipIf(missingNixl !== undefined)("bad input", () => {
	let a: NixlTransferAgent;
	let b: NixlTransferAgent;
	let from: MemoryRegion;
	let to: MemoryRegion;
	beforeAll(async () => {
		[a, b] = await Promise.all([createAgent(), createAgent()]);
		const spec = { label: "r", elementBytes: 64, elementCount: 4 };
		[from, to] = await Promise.all([
			a.createRegion(spec),
			b.createRegion(spec),
		]);
	});
	afterAll(() => Promise.all([a.close(), b.close()]));

	it("refuses metadata that ends at any byte, or goes on", () => {
		const whole = b.localMetadata();
		for (let length = 0; length < whole.length; length += 1)
			expect(() =>
				a.addRemote(whole.subarray(0, length), [to.descriptor]),
			).toThrow(expect.objectContaining({ code: "ERR_KVCR_INVALID_METADATA" }));
		expect(() =>
			a.addRemote(Buffer.concat([whole, Buffer.from("|")]), [to.descriptor]),
		).toThrow(expect.objectContaining({ code: "ERR_KVCR_INVALID_METADATA" }));
	});

	it("loads a peer after damaged metadata in its name", () => {
		const whole = Buffer.from(b.localMetadata());
		const damaged = Buffer.from(whole);
		// The memory keys, which NIXL reads last.
		damaged.fill(0xee, damaged.length - 12, damaged.length - 1);
		for (let i = 0; i < 3; i += 1)
			expect(() => a.addRemote(damaged, [to.descriptor])).toThrow(
				expect.objectContaining({ code: "ERR_KVCR_INVALID_METADATA" }),
			);
		const remote = a.addRemote(whole, [to.descriptor]);
		expect(() => a.addRemote(damaged, [to.descriptor])).toThrow();
		// The peer that was loaded is none the worse.
		a.connect(remote);
		a.removeRemote(remote);
	});

	it("survives thousands of damaged blobs", async () => {
		const ended = await runChild("metadata-fuzz.ts", ["7", "1500"]);
		expect(ended, ended.stderr).toMatchObject({ code: 0, signal: null });
	});

	it("reads the name of a peer, and can change it", () => {
		const blob = b.localMetadata();
		expect(readMetadata("test", blob).name).toBe(b.name);
		const renamed = underName(blob, b.name, "somebody");
		expect(readMetadata("test", renamed).name).toBe("somebody");
		expect(Buffer.from(underName(renamed, "somebody", b.name))).toEqual(blob);
	});

	it.each<[string, unknown]>([
		["not a list", "x"],
		["a number", [7]],
		["null", [null]],
		["another memory", [{ memType: "VRAM" }]],
		["a device", [{ deviceId: 1 }]],
		["a number for an address", [{ addr: 4096 }]],
		["no address", [{ addr: 0n }]],
		["a negative address", [{ addr: -1n }]],
		["an address past the end", [{ addr: (1n << 64n) - 64n }]],
		["more than there is", [{ count: 2 ** 31 }]],
		["no elements", [{ count: 0 }]],
		["a fraction", [{ size: 0.5 }]],
		["overlapping elements", [{ stride: 63 }]],
		["a label that is none", [{ label: 1 }]],
		["holes", new Array(2)],
		...unshowable,
	])("refuses descriptors with %s", (_what, change) => {
		const regions = Array.isArray(change)
			? change.map((fields) =>
					typeof fields === "object" && fields !== null
						? { ...to.descriptor, ...fields }
						: fields,
				)
			: change;
		expect(() =>
			a.addRemote(b.localMetadata(), regions as (typeof to.descriptor)[]),
		).toThrow(expect.objectContaining({ code: "ERR_KVCR_INVALID_METADATA" }));
	});

	it("refuses handles that are not its own", () => {
		const foreign = b.addRemote(a.localMetadata(), [from.descriptor]);
		for (const remote of [foreign, { name: b.name } as RemoteAgent]) {
			const request = {
				remote,
				pairs: [
					{ region: from, element: 0, remoteRegion: 0, remoteElement: 0 },
				],
				notification: Buffer.from("x"),
			};
			for (const attempt of [
				() => a.write(request),
				() => a.connect(remote),
				() => a.notify(remote, Buffer.from("x")),
			])
				expect(attempt).toThrow(
					expect.objectContaining({
						code: expect.stringMatching(
							/^ERR_KVCR_(STALE_REMOTE|INVALID_ARGUMENT)$/,
						),
					}),
				);
		}
		b.removeRemote(foreign);
	});

	it("refuses memory that was not allocated here", () => {
		const remote = a.addRemote(b.localMetadata(), [to.descriptor]);
		for (const region of oddities(from))
			expect(() =>
				a.write({
					remote,
					pairs: [{ region, element: 0, remoteRegion: 0, remoteElement: 0 }],
					notification: Buffer.from("x"),
				}),
			).toThrow(expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT" }));
		a.removeRemote(remote);
	});

	it("refuses payloads that are none, or too long", () => {
		const remote = a.addRemote(b.localMetadata(), [to.descriptor]);
		for (const payload of [
			"x",
			null,
			undefined,
			new Uint8Array((1 << 20) + 1),
			new Float64Array(1),
			Object.create(Uint8Array.prototype),
			new Proxy(new Uint8Array(1), {}),
		])
			expect(() => a.notify(remote, payload as Uint8Array)).toThrow(
				expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT" }),
			);
		a.removeRemote(remote);
	});

	it("takes bytes on memory that threads share, wherever it takes bytes", async () => {
		const shared = (bytes: Uint8Array) => {
			const copy = new Uint8Array(new SharedArrayBuffer(bytes.length + 3), 3);
			copy.set(bytes);
			return copy;
		};
		const remote = a.addRemote(shared(b.localMetadata()), [to.descriptor]);
		const expectation = b.expectTraffic();
		const got: string[] = [];
		const all = new Promise<void>((resolve) =>
			b.attach(() => {
				for (const { payload } of b.takeNotifications())
					got.push(Buffer.from(payload).toString());
				if (got.length === 2) resolve();
			}),
		);
		a.notify(remote, shared(Buffer.from("one")));
		a.write({
			remote,
			pairs: [{ region: from, element: 0, remoteRegion: 0, remoteElement: 0 }],
			notification: shared(Buffer.from("two")),
		});
		await all;
		expect(got.sort()).toEqual(["one", "two"]);
		b.detach();
		expectation.end();
		while (a.takeCompletions().length === 0) await setImmediate();
		a.removeRemote(remote);
	});

	it("loads the metadata that it checked", () => {
		const metadata = Buffer.from(b.localMetadata());
		const remote = a.addRemote(metadata, [
			{
				...to.descriptor,
				get label() {
					metadata.fill(0xff);
					return "r";
				},
			},
		]);
		expect(remote.name).toBe(b.name);
		a.removeRemote(remote);
	});

	it("delivers payloads of every size it takes", async () => {
		const remote = a.addRemote(b.localMetadata(), [to.descriptor]);
		const expectation = b.expectTraffic();
		const sizes = [0, 1, 100, 4_096, 65_536, 1 << 20];
		const got: number[] = [];
		const all = new Promise<void>((resolve) =>
			b.attach(() => {
				for (const { payload } of b.takeNotifications()) {
					expect(payload.every((byte) => byte === 6)).toBe(true);
					got.push(payload.byteLength);
				}
				if (got.length === sizes.length) resolve();
			}),
		);
		for (const size of sizes)
			expect(a.notify(remote, new Uint8Array(size).fill(6))).toBe(true);
		await all;
		expect(got).toEqual(sizes);
		b.detach();
		expectation.end();
		a.removeRemote(remote);
	});

	it("refuses every call after close, and closing twice is no error", async () => {
		const agent = await createAgent();
		const region = await agent.createRegion({
			label: "r",
			elementBytes: 64,
			elementCount: 1,
		});
		const remote = agent.addRemote(agent.localMetadata(), [region.descriptor]);
		const expectation = agent.expectTraffic();
		const metadata = agent.localMetadata();
		await Promise.all([agent.close(), agent.close()]);
		await agent.close();
		expectation.end();
		const closed = expect.objectContaining({ code: "ERR_KVCR_CLOSED" });
		for (const attempt of [
			() => agent.localMetadata(),
			() => agent.addRemote(metadata, []),
			() => agent.removeRemote(remote),
			() => agent.connect(remote),
			() => agent.notify(remote, Buffer.from("x")),
			() => agent.expectTraffic(),
		])
			expect(attempt).toThrow(closed);
		expect(agent.cancel(1 as TransferId)).toBe(false);
		expect(agent.takeCompletions()).toEqual([]);
		expect(agent.takeNotifications()).toEqual([]);
		await expect(
			agent.mapRegion({
				label: "m",
				elementBytes: 1,
				elementCount: 1,
				path: "/dev/shm/x",
			}),
		).rejects.toEqual(closed);
	});
});
