import {
	AmbiguousHashError,
	HashNotFoundError,
	InvalidArgumentError,
	type RouterHash,
} from "kvcr-core";
import { describe, expect, it } from "vitest";
import {
	inventoryFeed,
	ReverseHashMap,
	TIER_BITS,
	TierLimitError,
	VllmKeyAdapter,
} from "../src/index.js";
import { modelHash, randomSource } from "./support/map-model.js";

const { DRAM, HBM } = TIER_BITS;
const adapter = new VllmKeyAdapter({ events: true });

function keyOf(fill: number, hash: bigint, group = 0, hashBytes = 32) {
	const blockHash = new Uint8Array(hashBytes).fill(fill);
	new DataView(blockHash.buffer).setBigUint64(hashBytes - 8, hash);
	return adapter.encode({ blockHash, groupIndex: group });
}

const hash = (value: bigint) => value as RouterHash;

describe("reverse hash map", () => {
	it("tells unknown, unique and ambiguous hashes apart", () => {
		const map = new ReverseHashMap();
		expect(() => map.resolve(hash(7n))).toThrow(HashNotFoundError);
		map.add(keyOf(1, 7n), DRAM);
		expect(map.resolve(hash(7n))).toEqual(keyOf(1, 7n));
		map.add(keyOf(2, 7n), DRAM);
		map.add(keyOf(3, 7n), DRAM);
		const ambiguous = catchError(() => map.resolve(hash(7n)));
		expect(ambiguous).toBeInstanceOf(AmbiguousHashError);
		expect(ambiguous).toMatchObject({ hash: 7n, candidates: 3 });
	});

	it("counts keys of different cache groups as ambiguous", () => {
		const map = new ReverseHashMap();
		map.add(keyOf(1, 7n, 0), DRAM);
		map.add(keyOf(1, 7n, 1), DRAM);
		expect(map.status(hash(7n))).toBe("ambiguous_hash");
	});

	it("finds the remaining key once removals made a hash unique again", () => {
		const map = new ReverseHashMap();
		for (let fill = 0; fill < 40; fill++) map.add(keyOf(fill, 7n), DRAM);
		for (let fill = 0; fill < 40; fill++) {
			if (fill === 23) continue;
			expect(map.status(hash(7n))).toBe("ambiguous_hash");
			map.remove(keyOf(fill, 7n), DRAM);
		}
		expect(map.lookup(hash(7n))).toEqual(keyOf(23, 7n));
	});

	it("keeps a key until its last tier is removed, whatever the order and number of events", () => {
		const map = new ReverseHashMap();
		const key = keyOf(1, 7n);
		expect(map.remove(key, HBM)).toBe(false);
		expect(map.add(key, DRAM)).toBe(true);
		expect(map.add(key, DRAM)).toBe(false);
		expect(map.add(key, HBM)).toBe(true);
		expect(map.remove(key, HBM)).toBe(true);
		expect(map.remove(key, HBM)).toBe(false);
		expect(map.lookup(hash(7n))).toEqual(key);
		expect(map.tiersOf(key)).toBe(DRAM);
		expect(map.remove(key, DRAM)).toBe(true);
		expect(map.status(hash(7n))).toBe("not_found");
	});

	it("keeps hashes apart that differ in a single bit, and the largest and smallest ones", () => {
		const map = new ReverseHashMap();
		const hashes = [
			0n,
			(1n << 64n) - 1n,
			1n << 63n,
			(1n << 53n) + 1n,
			1n << 53n,
		];
		for (let bit = 0n; bit < 64n; bit++) hashes.push((1n << bit) ^ 0xa5a5n);
		for (const value of hashes) map.add(keyOf(9, value), DRAM);
		for (const value of hashes)
			expect(map.lookup(hash(value))).toEqual(keyOf(9, value));
	});

	it("takes a safe number for the integer it is", () => {
		const map = new ReverseHashMap();
		map.add(keyOf(1, 7n), DRAM);
		expect(map.lookup(7 as never)).toEqual(keyOf(1, 7n));
	});

	it("answers a batch as it answers one by one, beyond the size of its own batches", () => {
		const map = new ReverseHashMap();
		const hashes: RouterHash[] = [];
		for (let i = 0; i < 500; i++) {
			const value = BigInt(i) * 0x9e3779b97f4a7c15n;
			hashes.push(hash(BigInt.asUintN(64, value)));
			if (i % 3 > 0) map.add(keyOf(1, hashes[i] as bigint), DRAM);
			if (i % 3 > 1) map.add(keyOf(2, hashes[i] as bigint), DRAM);
		}
		expect(map.lookupMany(hashes)).toEqual(hashes.map((h) => map.lookup(h)));
		expect(map.statusMany(hashes)).toEqual(hashes.map((h) => map.status(h)));
		expect(map.lookupMany([])).toEqual([]);
	});

	it("takes and gives up many keys as it does one by one, and counts what was news", () => {
		const map = new ReverseHashMap();
		const keys = Array.from({ length: 300 }, (_, i) =>
			keyOf(i, BigInt(i % 250) << 32n, 0, i % 2 === 0 ? 32 : 16),
		);
		expect(map.addMany(keys.slice(0, 100), DRAM)).toBe(100);
		expect(map.addMany(keys, DRAM)).toBe(200);
		expect(map.size).toBe(300);
		expect(map.status(hash(1n << 32n))).toBe("ambiguous_hash");
		expect(map.lookup(hash(249n << 32n))).toEqual(keys[249]);
		expect(map.removeMany(keys.slice(250), DRAM)).toBe(50);
		expect(map.lookup(hash(1n << 32n))).toEqual(keys[1]);
		expect(map.removeMany(keys, DRAM)).toBe(250);
		expect(map.stats().keys).toBe(0);
		expect(() => map.addMany([...keys, new Uint8Array(3)], DRAM)).toThrow(
			InvalidArgumentError,
		);
		expect(() => map.removeMany(keys, 0)).toThrow(InvalidArgumentError);
		expect(map.size).toBe(0);
	});

	it("is told which hashes come next, of whatever length, and changes nothing", () => {
		const map = new ReverseHashMap();
		const hashes = Array.from(
			{ length: 130 },
			(_, i) => new Uint8Array(i % 40),
		);
		let from = 0;
		let calls = 0;
		while (from < hashes.length) {
			from = map.expectHashes(hashes, from);
			calls++;
		}
		expect(from).toBe(130);
		expect(calls).toBe(3);
		expect(map.size).toBe(0);
	});

	it("takes a hash out of a larger buffer as it takes the key", () => {
		const map = new ReverseHashMap();
		const key = keyOf(5, 99n, 3, 16);
		const frame = new Uint8Array(64);
		frame.set(key.subarray(0, 16), 21);
		map.addHash(frame, 21, 16, 3, DRAM);
		expect(map.resolve(hash(99n))).toEqual(key);
		expect(map.removeHash(frame, 21, 16, 3, DRAM)).toBe(true);
		expect(map.size).toBe(0);
	});

	it("refuses unusable arguments and changes nothing", () => {
		const map = new ReverseHashMap();
		const key = keyOf(1, 7n);
		map.add(key, DRAM);
		const before = map.stats();
		const frame = new Uint8Array(20);
		for (const attempt of [
			() => map.add(new Uint8Array(11), DRAM),
			() => map.add(new Uint8Array(1025), DRAM),
			() => map.add("key" as never, DRAM),
			() => map.add(key, 0),
			() => map.add(key, -1),
			() => map.add(key, 2 ** 32),
			() => map.remove(key, 1.5),
			() => map.addHash(frame, 0, 7, 0, DRAM),
			() => map.addHash(frame, 13, 8, 0, DRAM),
			() => map.addHash(frame, -1, 8, 0, DRAM),
			() => map.addHash(frame, 0, 8, -1, DRAM),
			() => map.addHash(frame, 0, 8, 2 ** 32, DRAM),
			() => map.lookup(hash(-1n)),
			() => map.lookup(hash(1n << 64n)),
			() => map.lookup((2 ** 60) as never),
			() => map.statusMany([hash(7n), hash(1n << 64n)]),
		])
			expect(attempt).toThrow(InvalidArgumentError);
		expect(map.stats()).toEqual(before);
		expect(map.lookup(hash(7n))).toEqual(key);
	});

	it("empties a retired tier at once, and gives its bit back when the sweep is over", () => {
		const map = new ReverseHashMap();
		const tier = map.reserveTier();
		for (let i = 0; i < 1000; i++) map.add(keyOf(1, BigInt(i)), tier);
		map.add(keyOf(2, 5n), DRAM);
		map.add(keyOf(1, 6n), DRAM);
		map.retireTiers(tier);
		expect(map.status(hash(4n))).toBe("not_found");
		expect(map.lookup(hash(5n))).toEqual(keyOf(2, 5n));
		expect(map.lookup(hash(6n))).toEqual(keyOf(1, 6n));
		expect(() => map.add(keyOf(1, 4n), tier)).toThrow(InvalidArgumentError);
		expect(map.reserveTier()).not.toBe(tier);
		let calls = 1;
		while (map.sweep(100)) calls++;
		expect(calls).toBeGreaterThan(9);
		expect(map.size).toBe(2);
		expect(map.reserveTier()).toBe(tier);
	});

	it("has 32 tiers and says when they are used up", () => {
		const map = new ReverseHashMap();
		const tiers = Array.from({ length: 27 }, () => map.reserveTier());
		expect(new Set(tiers).size).toBe(27);
		expect(() => map.reserveTier()).toThrow(TierLimitError);
		const key = keyOf(1, 1n);
		for (const tier of tiers) map.add(key, tier);
		expect(map.tiersOf(key)).toBe(0xffff_ffe0);
	});

	it("follows the inventory of a core", () => {
		const map = new ReverseHashMap();
		const feed = inventoryFeed(map);
		feed({ keys: [keyOf(1, 1n), keyOf(2, 2n)], tier: "DRAM", removed: false });
		feed({ keys: [keyOf(1, 1n)], tier: "G3", removed: false });
		feed({ keys: [keyOf(1, 1n), keyOf(2, 2n)], tier: "DRAM", removed: true });
		expect(map.tiersOf(keyOf(1, 1n))).toBe(TIER_BITS.G3);
		expect(map.status(hash(2n))).toBe("not_found");
	});
});

describe("reverse hash map at size", () => {
	it("needs at most 64 bytes per 36-byte key at every size from 100,000, and after half was removed", () => {
		const map = new ReverseHashMap({ seed: 4 });
		const random = randomSource(99);
		const key = new Uint8Array(36);
		const view = new DataView(key.buffer);
		const fill = () => {
			for (let at = 0; at < 36; at += 4) view.setUint32(at, random(2 ** 32));
		};
		let worst = 0;
		for (let i = 1; i <= 400_000; i++) {
			fill();
			map.add(key, DRAM);
			if (i >= 100_000 && i % 10_000 === 0)
				worst = Math.max(worst, map.stats().bytes / map.size);
		}
		expect(worst).toBeLessThanOrEqual(64);
		const again = randomSource(99);
		for (let i = 0; i < 200_000; i++) {
			for (let at = 0; at < 36; at += 4) view.setUint32(at, again(2 ** 32));
			map.remove(key, DRAM);
		}
		expect(map.size).toBe(200_000);
		expect(map.stats().bytes / map.size).toBeLessThanOrEqual(64);
	});

	it("does not slow down with the number of keys under one hash", () => {
		const map = new ReverseHashMap({ seed: 4 });
		const key = new Uint8Array(36);
		const view = new DataView(key.buffer);
		const run = (from: number, to: number) => {
			const start = performance.now();
			for (let i = from; i < to; i++) {
				view.setUint32(0, i);
				map.add(key, DRAM);
			}
			return performance.now() - start;
		};
		run(0, 10_000);
		const early = Math.max(run(10_000, 20_000), 1);
		run(20_000, 190_000);
		const late = run(190_000, 200_000);
		// A list walked to its end would make this a factor of ten and more.
		expect(late).toBeLessThan(early * 8 + 50);
		expect(map.status(modelHash(key))).toBe("ambiguous_hash");
		view.setUint32(0, 77);
		const start = performance.now();
		for (let i = 0; i < 199_999; i++) {
			view.setUint32(0, i < 77 ? i : i + 1);
			map.remove(key, DRAM);
		}
		expect(performance.now() - start).toBeLessThan(10_000);
		view.setUint32(0, 77);
		expect(map.resolve(modelHash(key))).toEqual(key);
	});
});

function catchError(body: () => unknown): unknown {
	try {
		body();
	} catch (error) {
		return error;
	}
	return undefined;
}
