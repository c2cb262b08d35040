/** The secret hashes of the reverse map, and keys chosen to defeat them. */
import { describe, expect, it } from "vitest";
import { ReverseHashMap, TIER_BITS } from "../src/index.js";
import { KeyStore } from "../src/reverse-map/key-store.js";
import {
	hashWords,
	mix64,
	mixSeed,
	type WordHash,
} from "../src/reverse-map/mix.js";
import { modelHash, randomSource } from "./support/map-model.js";

const { DRAM } = TIER_BITS;

function pair(
	words: number[],
	bytes: number,
	k0: number,
	k1: number,
): [number, number] {
	const hash = new Int32Array(2);
	hashWords(new Int32Array(words), 0, words.length, bytes, k0, k1, hash);
	return [(hash[0] as number) >>> 0, (hash[1] as number) >>> 0];
}

/** Key number `n` of 2^11 under one router hash: bit `i` of `n` flips bit 31 of word `i`, and bits 31 and 16 of the next. */
function differentialKey(n: number): Uint8Array {
	const key = new Uint8Array(60).fill(7, 48, 56);
	for (let i = 0; i < 11; i++)
		if ((n & (1 << i)) !== 0) {
			key[4 * i] = (key[4 * i] as number) ^ 0x80;
			key[4 * i + 4] = (key[4 * i + 4] as number) ^ 0x80;
			key[4 * i + 5] = (key[4 * i + 5] as number) ^ 0x01;
		}
	return key;
}

function numberedKey(n: number): Uint8Array {
	const key = new Uint8Array(36);
	new DataView(key.buffer).setUint32(0, n);
	return key;
}

function storeWith(hash: WordHash) {
	let hashes = 0;
	const store = new KeyStore(1, {
		hash: (...args) => {
			hashes++;
			hash(...args);
		},
	});
	return {
		store,
		hashes: () => hashes,
		add: (key: Uint8Array) => store.add(key, 0, key.length - 4, 0, DRAM, 0),
		remove: (key: Uint8Array) =>
			store.remove(key, 0, key.length - 4, 0, DRAM, 0),
	};
}

describe("hash over whole keys", () => {
	it("is HalfSipHash-1-3 in its low word: published vectors for key 00…07 and messages 00 01 02…", () => {
		const words = [0x03020100, 0x07060504];
		const hash = (count: number) =>
			pair(words.slice(0, count), 4 * count, 0x03020100, 0x07060504)[1];
		expect(hash(0)).toBe(0x5814c896);
		expect(hash(1)).toBe(0x7e059ea6);
		expect(hash(2)).toBe(0x577999b1);
	});

	it("tells keys of different lengths apart, and has two words that do not follow each other", () => {
		expect(pair([1, 0], 8, 5, 6)).not.toEqual(pair([1, 0], 7, 5, 6));
		expect(pair([1, 0], 8, 5, 6)).not.toEqual(pair([1], 4, 5, 6));
		const lows = new Set<number>();
		const highs = new Set<number>();
		for (let n = 0; n < 2000; n++) {
			const [high, low] = pair([n], 4, 5, 6);
			lows.add(low);
			highs.add(high);
			expect(high).not.toBe(low);
		}
		expect(lows.size).toBe(2000);
		expect(highs.size).toBe(2000);
	});

	it("gives no difference in two neighboring words the same hash for every secret", () => {
		const random = randomSource(7);
		// One bit of a word, and none, one or two bits of the next: whatever cancels would do so for each of the secrets.
		const seconds = [0];
		for (let a = 0; a < 32; a++)
			for (let b = 0; b <= a; b++) seconds.push((1 << a) | (1 << b));
		let equal = 0;
		for (let bit = 0; bit < 32; bit++)
			for (const second of seconds) {
				const [k0, k1] = [random(2 ** 32), random(2 ** 32)];
				const [w0, w1] = [random(2 ** 32), random(2 ** 32)];
				const one = pair([w0, w1, 3], 12, k0, k1);
				const other = pair([w0 ^ (1 << bit), w1 ^ second, 3], 12, k0, k1);
				if (one[0] === other[0] || one[1] === other[1]) equal++;
			}
		expect(equal).toBe(0);
	});
});

describe("mix of the main table", () => {
	it("lets no difference of a few bits keep the place of a hash more often than chance", () => {
		const random = randomSource(11);
		const samples = Array.from({ length: 300 }, (_, i) => {
			const seed = mixSeed(i + 1);
			return [random(2 ** 32), random(2 ** 32), seed] as const;
		});
		const place = (high: number, low: number, k: Int32Array) =>
			mix64(
				high,
				low,
				k[0] as number,
				k[1] as number,
				k[2] as number,
				k[3] as number,
			) >>> 22;
		const places = samples.map(([high, low, k]) => place(high, low, k));
		const differences = [0];
		for (let a = 0; a < 32; a++)
			for (let b = 0; b <= a; b++) differences.push((1 << a) | (1 << b));
		let worst = 0;
		for (let bit = -1; bit < 32; bit++)
			for (const high of differences) {
				const low = bit < 0 ? 0 : 1 << bit;
				if (low === 0 && high === 0) continue;
				let kept = 0;
				for (const [i, [h, l, k]] of samples.entries())
					if (place(h ^ high, l ^ low, k) === places[i]) kept++;
				worst = Math.max(worst, kept);
			}
		// Chance gives 0.3 of 300.
		expect(worst).toBeLessThan(10);
	});
});

describe("keys under one router hash that are chosen to share an index hash", () => {
	it("are told apart for any seed, in little memory, and removed again", () => {
		for (const seed of [1, 2, undefined]) {
			const map = new ReverseHashMap(seed === undefined ? {} : { seed });
			for (let n = 0; n < 2048; n++)
				expect(map.add(differentialKey(n), DRAM)).toBe(true);
			expect(map.stats()).toMatchObject({ keys: 2048, hashes: 1 });
			expect(map.stats().bytes).toBeLessThan(1_000_000);
			for (let n = 1; n < 2048; n++)
				expect(map.remove(differentialKey(n), DRAM)).toBe(true);
			expect(map.lookup(modelHash(differentialKey(0)))).toEqual(
				differentialKey(0),
			);
		}
	});

	it("are filed under new secrets when the first ones are defeated", () => {
		let first: number | undefined;
		const { store, hashes, add, remove } = storeWith((...args) => {
			const [, , , , k0, , hash] = args;
			first ??= k0;
			if (k0 === first) hash.fill(5);
			else hashWords(...args);
		});
		for (let n = 0; n < 20_000; n++) expect(add(numberedKey(n))).toBe(true);
		expect(store.size).toBe(20_000);
		// One or two per key, and one per key that was filed before.
		expect(hashes()).toBeLessThan(60_000);
		for (let n = 0; n < 20_000; n++) expect(remove(numberedKey(n))).toBe(true);
		expect(store.size).toBe(0);
		expect(store.hashes).toBe(0);
	});

	it("are refused beyond a few, at a steady cost, when nothing tells them apart", () => {
		const { store, hashes, add, remove } = storeWith((...args) => {
			const [words, from, , , , , hash] = args;
			hash.fill((words[from + 3] as number) & 7);
		});
		const kept: number[] = [];
		for (let n = 0; n < 20_000; n++) {
			try {
				if (add(numberedKey(n))) kept.push(n);
			} catch (error) {
				expect(error).toMatchObject({ code: "ERR_KVCR_MAP_FULL" });
			}
		}
		// 32 for each of the eight hashes.
		expect(kept.length).toBe(256);
		expect(store.size).toBe(256);
		expect(hashes()).toBeLessThan(100_000);
		expect(store.bytes).toBeLessThan(1_000_000);
		for (const n of kept) expect(remove(numberedKey(n))).toBe(true);
		expect(store.size).toBe(0);
		expect(store.collidingKeys).toBe(0);
	});
});
