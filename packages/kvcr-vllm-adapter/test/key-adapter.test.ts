import { createHash } from "node:crypto";
import {
	type BlockKey,
	InvalidArgumentError,
	type RouterHash,
} from "kvcr-core";
import { keyAdapterSuite } from "kvcr-core/testing";
import { describe, expect, it } from "vitest";
import {
	KvEventsDisabledError,
	ReverseHashMap,
	TIER_BITS,
	type VllmKey,
	VllmKeyAdapter,
} from "../src/index.js";
import { modelHash } from "./support/map-model.js";

const adapter = new VllmKeyAdapter({ events: true });
/** Hash sizes of vLLM (sha256, xxh3_128), the shortest that works, and odd ones. */
const HASH_BYTES = [32, 16, 8, 9, 31, 64, 1020];

function hashOf(text: string, length: number): Uint8Array {
	const block = createHash("sha512").update(text).digest();
	const hash = new Uint8Array(length);
	for (let at = 0; at < length; at++) hash[at] = block[at % 64] as number;
	return hash;
}

it("takes the map of another copy of the package, and nothing that is no map", () => {
	const lookup = { resolve: () => new Uint8Array(36), lookupMany: () => [] };
	const map = lookup as unknown as ReverseHashMap;
	expect(new VllmKeyAdapter({ events: true, map }).map).toBe(map);
	for (const other of [null, {}, { resolve: () => 1 }, new Map()])
		expect(
			() => new VllmKeyAdapter({ events: true, map: other as never }),
		).toThrow(InvalidArgumentError);
});

it("splits a Buffer into a hash of its own", () => {
	const key = Buffer.alloc(36, 3);
	const { blockHash } = adapter.split(key as Uint8Array as BlockKey);
	key.fill(8);
	expect(blockHash).toEqual(new Uint8Array(32).fill(3));
});

it.each([undefined, null, 5, "1"])(
	"refuses %s in place of a list of router hashes",
	(hashes) => {
		expect(() => adapter.decodeManyFromRouter(hashes as never)).toThrow(
			InvalidArgumentError,
		);
		expect(() => new VllmKeyAdapter(hashes as never)).toThrow(
			InvalidArgumentError,
		);
	},
);

keyAdapterSuite<VllmKey>(
	{ describe, it },
	{
		name: "VllmKeyAdapter",
		create() {
			const subject = new VllmKeyAdapter({ events: true });
			const add = (key: VllmKey) => {
				subject.map?.add(subject.encode(key), TIER_BITS.DRAM);
				return key;
			};
			const known = HASH_BYTES.map((length) =>
				add({ blockHash: hashOf(`known ${length}`, length), groupIndex: 0 }),
			);
			const shared = hashOf("shared", 32);
			const colliding = [0, 1, 2].map((groupIndex) =>
				add({ blockHash: shared, groupIndex }),
			);
			return {
				adapter: subject,
				known,
				colliding,
				unknownHash: 123n,
				forget: (key) =>
					subject.map?.remove(subject.encode(key), TIER_BITS.DRAM),
			};
		},
	},
);

describe("keys of vLLM", () => {
	for (const length of HASH_BYTES)
		it(`encodes hashes of ${length} bytes and reads the router hash from their end`, () => {
			const blockHash = hashOf("block", length);
			const key = adapter.encode({ blockHash, groupIndex: 0x01020304 });
			expect([...key]).toEqual([...blockHash, 1, 2, 3, 4]);
			expect(adapter.split(key)).toEqual({ blockHash, groupIndex: 0x01020304 });
			expect(adapter.decode(key)).toBe(modelHash(key));
			adapter.map?.add(key, TIER_BITS.DRAM);
			expect(adapter.decodeFromRouter(adapter.decode(key))).toEqual(key);
		});

	it("takes the low 64 bits unsigned, from the end of the hash and not from its start", () => {
		const blockHash = new Uint8Array(32);
		blockHash.set([1, 2, 3, 4, 5, 6, 7, 8], 0);
		blockHash.set([0xff, 0, 0, 0, 0, 0, 0, 0x2a], 24);
		const key = adapter.encode({ blockHash, groupIndex: 0xffff_ffff });
		expect(adapter.decode(key)).toBe(0xff00_0000_0000_002an);
	});

	it("reads keys that are views into a larger buffer", () => {
		const blockHash = hashOf("view", 32);
		const frame = new Uint8Array(100);
		frame.set(blockHash, 3);
		const key = adapter.encode({
			blockHash: frame.subarray(3, 35),
			groupIndex: 2,
		});
		frame.set(key, 61);
		expect(adapter.decode(frame.subarray(61, 97) as BlockKey)).toBe(
			adapter.decode(key),
		);
	});

	it("refuses what cannot be a key of vLLM", () => {
		const blockHash = hashOf("x", 32);
		for (const attempt of [
			() => adapter.encode({ blockHash: new Uint8Array(7), groupIndex: 0 }),
			() => adapter.encode({ blockHash: new Uint8Array(1021), groupIndex: 0 }),
			() => adapter.encode({ blockHash: "abcdefgh" as never, groupIndex: 0 }),
			() => adapter.encode({ blockHash, groupIndex: -1 }),
			() => adapter.encode({ blockHash, groupIndex: 2 ** 32 }),
			() => adapter.encode({ blockHash, groupIndex: 0.5 }),
			() => adapter.encode(undefined as never),
			() => adapter.decode(new Uint8Array(11) as BlockKey),
			() => adapter.decode("key" as never),
			() => new VllmKeyAdapter({} as never),
			() => new VllmKeyAdapter({ events: false, map: new ReverseHashMap() }),
			() => new VllmKeyAdapter({ events: true, map: {} as never }),
		])
			expect(attempt).toThrow(InvalidArgumentError);
	});
});

describe("an adapter without KV cache events", () => {
	const disabled = new VllmKeyAdapter({ events: false });

	it("does not advertise hints and says why it resolves nothing", () => {
		expect(disabled.routerCapabilities).toEqual([]);
		expect(adapter.routerCapabilities).toEqual(["router_hint"]);
		expect(() => disabled.decodeFromRouter(1n as RouterHash)).toThrow(
			KvEventsDisabledError,
		);
		expect(() => disabled.decodeManyFromRouter([1n as RouterHash])).toThrow(
			/enable them in vLLM/,
		);
	});

	it("still encodes and decodes the exact keys the framework supplies", () => {
		const key = disabled.encode({ blockHash: hashOf("a", 32), groupIndex: 1 });
		expect(disabled.decode(key)).toBe(modelHash(key));
	});
});
