/**
 * Full keys with their tiers, found by router hash: an arena of keys, a table from hashes to them, and chains for keys
 * that share a hash. Knows nothing about what tiers mean, and checks no arguments.
 *
 * A look-up waits for memory twice, for the slot of the hash and for the key, and a removal a third time, for the slot
 * of the key that moves into the gap. What can be asked for early is, so that the waits overlap.
 */
import type { BlockKey } from "kvcr-core";
import { CollisionChains, isList } from "./collision-chains.js";
import { KeyArena } from "./key-arena.js";
import { type StoreLimits, storeLimits } from "./limits.js";
import { mixSeed } from "./mix.js";
import {
	GROUP_BYTES,
	MAX_HASH_BYTES,
	MIN_HASH_BYTES,
	packHash,
	wordAt,
} from "./packed-key.js";
import { SegmentedTable } from "./segmented-table.js";

/** Keys or hashes dealt with together: enough to hide memory latency, few enough to stay in the first-level cache. */
export const BATCH = 64;

/** See the comment at the top of this file. The *value* of a hash is 0 (no key), a ref (one key), or a list of keys. */
export class KeyStore {
	readonly #seed: number | undefined;
	readonly #limits: StoreLimits;
	#arena: KeyArena;
	#table: SegmentedTable;
	#chains: CollisionChains;
	/** The key at hand, packed. */
	readonly #words = new Int32Array((MAX_HASH_BYTES + GROUP_BYTES) >>> 2);
	/** Mixed hashes of a batch. */
	readonly #mixed = new Int32Array(BATCH);
	/** What was read only to have it in the cache. */
	readonly #touched = new Int32Array(1);

	/** `seed` is that of the hash functions: random when undefined. `limits` is for tests: see limits.ts. */
	constructor(seed: number | undefined, limits: Partial<StoreLimits> = {}) {
		this.#seed = seed;
		this.#limits = storeLimits(limits);
		[this.#arena, this.#table, this.#chains] = this.#empty();
	}

	/** Forgets every key. */
	clear(): void {
		this.#arena.dispose();
		this.#table.dispose();
		this.#chains.dispose();
		[this.#arena, this.#table, this.#chains] = this.#empty();
	}

	/** Number of keys. */
	get size(): number {
		return this.#arena.size;
	}

	/** Number of distinct hashes. */
	get hashes(): number {
		return this.#table.size;
	}

	/** Number of keys that share their hash with another one. */
	get collidingKeys(): number {
		return this.#chains.size;
	}

	/** Bytes of all buffers. */
	get bytes(): number {
		return this.#arena.bytes + this.#table.bytes + this.#chains.bytes;
	}

	/**
	 * Sets tier bits of the key whose block hash is at `source[offset, offset + hashBytes)`, and clears its bits in `retired`.
	 * True when one of the bits is new.
	 * @throws MapFullError when that needs room that there is not. Then, as after any other error, the keys are as before.
	 */
	add(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: number,
		retired: number,
	): boolean {
		const table = this.#table;
		const tail = offset + hashBytes - MIN_HASH_BYTES;
		const high = wordAt(source, tail);
		const low = wordAt(source, tail + 4);
		const mixed = table.mix(high, low);
		const arena = this.#arena;
		const length = hashBytes + GROUP_BYTES;
		const next = arena.nextRef(length);
		const value =
			next === 0
				? table.get(mixed, high, low)
				: table.getOrInsert(mixed, high, low, next);
		if (value === 0) {
			if (next === 0) throw arena.full();
			arena.append(source, offset, hashBytes, group, tiers);
			return true;
		}
		packHash(source, offset, hashBytes, group, this.#words, 0);
		const found = this.#refIn(value, length);
		if (found !== 0) {
			const before = arena.tiers(found) & ~retired;
			arena.setTiers(found, before | tiers);
			return (tiers & ~before) !== 0;
		}
		const ref = arena.append(source, offset, hashBytes, group, tiers);
		let list: number;
		try {
			list = isList(value)
				? this.#chains.add(value, ref)
				: this.#chains.pair(value, ref);
		} catch (error) {
			arena.dropLast(ref);
			throw error;
		}
		if (list !== value) table.replace(mixed, high, low, value, list);
		return true;
	}

	/** Clears tier bits of a key, which goes when it has none left. True when it had one of them outside `retired`. */
	remove(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: number,
		retired: number,
	): boolean {
		const arena = this.#arena;
		const length = hashBytes + GROUP_BYTES;
		this.#touchSlotOf(arena.lastOf(length));
		const ref = this.find(source, offset, hashBytes, group);
		if (ref === 0) return false;
		const before = arena.tiers(ref) & ~retired;
		const after = before & ~tiers;
		if (after !== 0) arena.setTiers(ref, after);
		else this.free(ref);
		return (before & tiers) !== 0;
	}

	/** Ref of a key, 0 when it is not here. */
	find(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
	): number {
		packHash(source, offset, hashBytes, group, this.#words, 0);
		const high = this.#words[0] as number;
		const low = this.#words[1] as number;
		return this.#refIn(this.valueOf(high, low), hashBytes + GROUP_BYTES);
	}

	/** Removes a key for good; the last key of its length takes its place. */
	free(ref: number): void {
		const arena = this.#arena;
		const table = this.#table;
		const chains = this.#chains;
		const page = arena.page(ref);
		const at = arena.offset(ref);
		let high = page[at] as number;
		let low = page[at + 1] as number;
		let mixed = table.mix(high, low);
		// Most hashes have one key: tried first, so that their slot is looked for only once.
		if (!table.remove(mixed, high, low, ref)) {
			const list = table.get(mixed, high, low);
			chains.remove(mixed, high, low, list, chains.nodeOf(list, ref));
		}
		const last = arena.lastLike(ref);
		if (last !== ref) {
			arena.copy(last, ref);
			high = page[at] as number;
			low = page[at + 1] as number;
			mixed = table.mix(high, low);
			if (!table.replace(mixed, high, low, last, ref))
				chains.moved(table.get(mixed, high, low), last, ref);
		}
		arena.dropLast(last);
	}

	/**
	 * Brings the places of router hashes into the cache, for an {@link add} or {@link remove} each that follows soon. The
	 * hashes are those of `sources[from, to)`, each `tailBytes` before the end.
	 */
	expect(
		sources: readonly Uint8Array[],
		from: number,
		to: number,
		tailBytes: number,
	): void {
		const mixed = this.#mixed;
		let count = 0;
		for (let i = from; i < to; i++) {
			const source = sources[i] as Uint8Array;
			const tail = source.length - tailBytes;
			if (tail < 0) continue;
			mixed[count++] = this.#table.mix(
				wordAt(source, tail),
				wordAt(source, tail + 4),
			);
		}
		this.#touched[0] = this.#table.touchMany(mixed, count);
	}

	/** Value of a hash. */
	valueOf(high: number, low: number): number {
		return this.#table.get(this.#table.mix(high, low), high, low);
	}

	/** Values of up to {@link BATCH} hashes, whose high and low words are in `pairs` in turn. */
	valuesOf(pairs: Int32Array, count: number, values: Int32Array): void {
		const table = this.#table;
		const mixed = this.#mixed;
		for (let i = 0; i < count; i++) {
			const m = table.mix(pairs[2 * i] as number, pairs[2 * i + 1] as number);
			mixed[i] = m;
			values[i] = m;
		}
		this.#touched[0] = table.touchMany(mixed, count);
		for (let i = 0; i < count; i++)
			values[i] = table.get(
				values[i] as number,
				pairs[2 * i] as number,
				pairs[2 * i + 1] as number,
			);
	}

	/** Number of keys of a value. */
	countOf(value: number): number {
		if (value === 0) return 0;
		return isList(value) ? this.#chains.count(value) : 1;
	}

	/** Refs of the keys of a value. */
	*refsOf(value: number): Iterable<number> {
		if (value === 0) return;
		if (!isList(value)) {
			yield value;
			return;
		}
		let node = this.#chains.first(value);
		for (; node !== 0; node = this.#chains.next(node))
			yield this.#chains.refOf(node);
	}

	/** Brings a key into the cache. The number means nothing. */
	touch(ref: number): number {
		return this.#arena.touch(ref);
	}

	/** The bytes of a key. */
	keyOf(ref: number): BlockKey {
		return this.#arena.keyOf(ref) as BlockKey;
	}

	/** Tier bits of a key. */
	tiersOf(ref: number): number {
		return this.#arena.tiers(ref);
	}

	/** Sets the tier bits of a key. */
	setTiers(ref: number, tiers: number): void {
		this.#arena.setTiers(ref, tiers);
	}

	/** Lengths that have keys, in bytes. */
	lengths(): number[] {
		return this.#arena.lengths();
	}

	/** Number of keys of one length. */
	countOfLength(length: number): number {
		return this.#arena.countOf(length);
	}

	/** Ref of the `index`-th key of a length. */
	refAt(length: number, index: number): number {
		return this.#arena.refAt(length, index);
	}

	#empty(): [KeyArena, SegmentedTable, CollisionChains] {
		const seed = mixSeed(this.#seed);
		const limits = this.#limits;
		const arena = new KeyArena(limits);
		const table = new SegmentedTable(seed, limits.pool, limits.depth);
		return [arena, table, new CollisionChains(arena, table, seed, limits)];
	}

	#touchSlotOf(ref: number): void {
		if (ref === 0) return;
		const page = this.#arena.page(ref);
		const at = this.#arena.offset(ref);
		const mixed = this.#table.mix(page[at] as number, page[at + 1] as number);
		this.#touched[0] = this.#table.touch(mixed);
	}

	/** Ref of the packed key among those of a value, 0 when it is not there. */
	#refIn(value: number, length: number): number {
		if (value === 0) return 0;
		if (!isList(value))
			return this.#arena.equals(value, length, this.#words) ? value : 0;
		const node = this.#chains.find(value, length, this.#words);
		return node === 0 ? 0 : this.#chains.refOf(node);
	}
}
