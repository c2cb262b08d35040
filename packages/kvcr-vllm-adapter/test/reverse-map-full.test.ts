/** The key store at its limits: a key that has no room is not added, and everything else goes on as if it had not been tried. */
import { keyText } from "kvcr-core";
import { describe, expect, it } from "vitest";
import { MapFullError } from "../src/index.js";
import { MOST_UNITS, unitsIn } from "../src/reverse-map/graded.js";
import { PAGE_ENTRIES, UNIT_ENTRIES } from "../src/reverse-map/key-arena.js";
import { KeyStore } from "../src/reverse-map/key-store.js";
import type { StoreLimits } from "../src/reverse-map/limits.js";
import { SLAB_SEGMENTS } from "../src/reverse-map/segmented-table.js";
import { TierSweep } from "../src/reverse-map/tier-sweep.js";
import { WordPool } from "../src/reverse-map/word-pool.js";
import { MapModel, randomSource } from "./support/map-model.js";

/** Slots of a segment before it splits. */
const SEGMENT_ROOM = 1843;
const SEED = Number(process.env.KVCR_MAP_SEED ?? Date.now() % 0x7fff_ffff);

/** Key number `n` of a router hash. */
function keyOf(hash: number, n = 0, length = 36): Uint8Array {
	const key = new Uint8Array(length);
	const view = new DataView(key.buffer);
	view.setUint32(length - 12, Math.imul(hash, 0x9e3779b1) >>> 0);
	view.setUint32(length - 8, hash);
	view.setUint32(length - 4, n);
	return key;
}

/** A store and its model. */
class Subject {
	readonly store: KeyStore;
	readonly model = new MapModel();
	readonly #sweep: TierSweep;

	constructor(limits: Partial<StoreLimits>) {
		this.store = new KeyStore(3, limits);
		this.#sweep = new TierSweep(this.store);
	}

	/** Adds a key; what the store refuses, the model does not get. False when it was refused. */
	add(key: Uint8Array, tiers = 1): boolean {
		const group = new DataView(key.buffer).getInt32(key.length - 4);
		let news: boolean;
		try {
			const { retired } = this.#sweep;
			news = this.store.add(key, 0, key.length - 4, group, tiers, retired);
		} catch (error) {
			if (error instanceof MapFullError || error instanceof NoMemory)
				return false;
			throw error;
		}
		if (this.model.add(key, tiers) !== news) throw new Error("add disagrees");
		return true;
	}

	remove(key: Uint8Array, tiers = 0xff): void {
		const group = new DataView(key.buffer).getInt32(key.length - 4);
		const { retired } = this.#sweep;
		const had = this.store.remove(
			key,
			0,
			key.length - 4,
			group,
			tiers,
			retired,
		);
		if (this.model.remove(key, tiers) !== had)
			throw new Error("remove disagrees");
	}

	sweep(tiers: number): void {
		this.#sweep.retire(tiers);
		this.model.retire(tiers);
		while (this.#sweep.step(100));
		this.#sweep.end();
		this.compare();
	}

	compare(): void {
		const { store, model } = this;
		expect(store.size).toBe(model.keys);
		expect(store.hashes).toBe(model.hashes.size);
		let colliding = 0;
		let perLength = 0;
		for (const [hash, keys] of model.hashes) {
			const high = Number(BigInt.asIntN(32, hash >> 32n));
			const low = Number(BigInt.asIntN(32, hash));
			const refs = [...store.refsOf(store.valueOf(high, low))];
			if (refs.length !== keys.size) throw new Error(`keys of ${hash}`);
			if (refs.length > 1) colliding += refs.length;
			for (const ref of refs) {
				const key = store.keyOf(ref);
				const group = new DataView(key.buffer).getInt32(key.length - 4);
				if (!keys.has(keyText(key))) throw new Error(`a key of ${hash}`);
				if (store.find(key, 0, key.length - 4, group) !== ref)
					throw new Error(`a key of ${hash} is not found`);
				if (store.tiersOf(ref) !== model.tiersOf(key))
					throw new Error(`tiers of a key of ${hash}`);
			}
		}
		expect(store.collidingKeys).toBe(colliding);
		for (const length of store.lengths())
			perLength += store.countOfLength(length);
		expect(perLength).toBe(model.keys);
	}

	/** Removes every key, in an order of its own. */
	removeAll(): void {
		const keys = [...this.model.hashes.values()].flatMap((of) => [
			...of.keys(),
		]);
		const drop = (text: string) =>
			this.remove(new Uint8Array(Buffer.from(text, "latin1")));
		for (let i = 0; i < keys.length; i += 3) drop(keys[i] as string);
		for (let i = keys.length - 1; i > 0; i -= 3) drop(keys[i] as string);
		this.compare();
		for (const text of keys) drop(text);
		this.compare();
		expect(this.store.size).toBe(0);
		expect(this.store.collidingKeys).toBe(0);
	}

	/** Everything that can be done with a store: sweeps, removals, a clear, and being filled again. */
	exercise(): void {
		this.compare();
		this.sweep(2);
		this.removeAll();
		for (let n = 0; n < 30; n++) expect(this.add(keyOf(n >>> 4, n))).toBe(true);
		this.compare();
		this.store.clear();
		this.model.clear();
		this.compare();
		for (let n = 0; n < 30; n++) expect(this.add(keyOf(n >>> 4, n))).toBe(true);
		this.compare();
		this.removeAll();
	}
}

class NoMemory extends Error {}

/** A pool without memory for some of the buffers asked for. */
class ScarcePool extends WordPool {
	/** Buffers asked for so far. */
	asked = 0;
	fails = (_asked: number) => false;

	override take(count: number): Int32Array {
		this.#ask();
		return super.take(count);
	}

	override takeAny(count: number): Int32Array {
		this.#ask();
		return super.takeAny(count);
	}

	#ask(): void {
		if (this.fails(this.asked++)) throw new NoMemory();
	}
}

describe("a full key store", () => {
	it("refuses further keys when all refs are used, whatever they share, but takes tiers for those it has", () => {
		const subject = new Subject({ pages: 2 });
		const { store } = subject;
		// 20 keys of one hash (an indexed list), three of another, and hashes of one key.
		for (let n = 0; n < 20; n++) subject.add(keyOf(1, n), 2);
		for (let n = 0; n < 3; n++) subject.add(keyOf(2, n));
		for (let hash = 3; store.size < UNIT_ENTRIES; hash++)
			expect(subject.add(keyOf(hash), hash & 1 ? 1 : 2)).toBe(true);
		const bytes = store.bytes;
		for (const key of [
			keyOf(1, 77),
			keyOf(2, 77),
			keyOf(3, 77),
			keyOf(1_000_000),
			keyOf(1_000_000, 0, 20),
			keyOf(3, 0, 20),
		]) {
			expect(() =>
				store.add(key, 0, key.length - 4, key[key.length - 1] ?? 0, 1, 0),
			).toThrow(MapFullError);
			expect(subject.add(key)).toBe(false);
		}
		expect(store.lengths()).toEqual([36]);
		expect(store.bytes).toBe(bytes);
		subject.compare();
		for (const key of [keyOf(1, 19), keyOf(2, 2), keyOf(3), keyOf(50)])
			expect(subject.add(key, 4)).toBe(true);
		subject.compare();
		subject.remove(keyOf(60));
		expect(subject.add(keyOf(1, 77))).toBe(true);
		expect(subject.add(keyOf(2, 77))).toBe(false);
		subject.exercise();
	});

	it("refuses a further hash when its segment cannot split, but takes keys of hashes it has", () => {
		const subject = new Subject({ depth: 0 });
		for (let hash = 0; hash < SEGMENT_ROOM; hash++)
			expect(subject.add(keyOf(hash), hash & 1 ? 1 : 2)).toBe(true);
		for (let hash = 0; hash < 100; hash++) {
			expect(subject.add(keyOf(SEGMENT_ROOM + hash))).toBe(false);
			expect(subject.add(keyOf(SEGMENT_ROOM + hash, 0, 20))).toBe(false);
		}
		for (let n = 1; n < 40; n++) expect(subject.add(keyOf(5, n))).toBe(true);
		expect(subject.add(keyOf(6, 0, 20))).toBe(true);
		subject.compare();
		subject.remove(keyOf(7));
		expect(subject.add(keyOf(SEGMENT_ROOM))).toBe(true);
		subject.exercise();
	});

	it("leaves a list without an index when the index has room for only a part of it", () => {
		const subject = new Subject({ indexDepth: 0 });
		const lists = 230;
		for (let hash = 0; hash < lists; hash++)
			for (let n = 0; n < 8; n++) subject.add(keyOf(hash, n), n & 1 ? 1 : 2);
		// A list of nine is indexed: 204 of them, and seven slots are left over.
		let indexed = 0;
		for (let hash = 0; hash < lists; hash++)
			if (subject.add(keyOf(hash, 8))) indexed++;
		expect(indexed).toBe(Math.floor(SEGMENT_ROOM / 9));
		subject.compare();
		for (let hash = 0; hash < lists; hash++)
			subject.add(keyOf(hash, 9), hash & 1 ? 1 : 2);
		subject.compare();
		for (let n = 0; n < 9; n++) subject.remove(keyOf(0, n));
		expect(subject.add(keyOf(lists - 1, 8))).toBe(true);
		subject.exercise();
	});

	it.each([
		{ pages: 2 },
		{ depth: 0 },
		{ indexDepth: 0 },
		{ pages: 3, depth: 0, indexDepth: 0 },
	])(
		`agrees with its model over a long history with %o (seed ${SEED})`,
		(limits) => {
			const random = randomSource(SEED);
			const subject = new Subject(limits);
			let refused = 0;
			for (let phase = 0; phase < 8; phase++) {
				const removals = phase % 2 === 0 ? 10 : 55;
				for (let step = 0; step < 20_000; step++) {
					// Half of the keys lie in few long lists, the others in many short ones.
					const hash = random(2) === 0 ? random(150) : 150 + random(3000);
					const length = random(8) === 0 ? 20 : 36;
					const key = keyOf(hash, random(hash < 150 ? 16 : 2), length);
					const tiers = 1 << random(3);
					if (random(100) < removals) subject.remove(key, tiers);
					else if (!subject.add(key, tiers)) refused++;
				}
				subject.compare();
				subject.sweep(1 << random(3));
			}
			expect(refused).toBeGreaterThan(100);
			subject.exercise();
		},
	);
});

describe("a key store without memory", () => {
	/** Keys of two lengths in single places, pairs, short lists and indexed ones, until tables have split. */
	function fill(subject: Subject): number {
		let refused = 0;
		for (let n = 0; n < 5000; n++) {
			const hash = n % 5 === 0 ? n % 400 : n;
			const key = keyOf(hash, n % 5 === 0 ? n : 0, n % 3 === 0 ? 20 : 36);
			if (!subject.add(key, n & 1 ? 1 : 2)) refused++;
		}
		for (let n = 0; n < 60; n++)
			if (!subject.add(keyOf(9, n, 12 + n))) refused++;
		return refused;
	}

	it("is as before when any one buffer cannot be had", {
		timeout: 120_000,
	}, () => {
		const unlimited = new ScarcePool();
		const whole = new Subject({ pool: unlimited });
		const first = unlimited.asked;
		expect(fill(whole)).toBe(0);
		const buffers = unlimited.asked;
		expect(buffers - first).toBeGreaterThan(60);
		for (let failing = first; failing < buffers; failing++) {
			const pool = new ScarcePool();
			const subject = new Subject({ pool });
			pool.fails = (asked) => asked === failing;
			expect(fill(subject)).toBe(1);
			subject.exercise();
		}
	});

	it("removes keys all the same", () => {
		const pool = new ScarcePool();
		const subject = new Subject({ pool });
		fill(subject);
		pool.fails = () => true;
		expect(subject.add(keyOf(1, 1, 1000))).toBe(false);
		subject.sweep(2);
		subject.removeAll();
	});
});

describe("layout of numbers", () => {
	it("has room for as many units as the largest buffer has", () => {
		expect(unitsIn(1_000_000)).toBe(MOST_UNITS);
		expect(SLAB_SEGMENTS).toBe(MOST_UNITS);
		expect(PAGE_ENTRIES).toBe(MOST_UNITS * UNIT_ENTRIES);
	});
});
