/**
 * A hash table from 64-bit keys to 32-bit values that never stalls. A full segment (see segment.ts) splits in two on its
 * own, a sparse one joins its neighbor, so that the longest step rewrites one segment.
 *
 * Segments lie densely in slabs (see graded.ts); a segment's number is slab ‖ 4-bit index. A directory finds them by a prefix of the key's position in an
 * unevenly divided space (see key-space.ts).
 *
 * The same key may be present several times with different values. Every call takes the key with its mixed hash, from
 * {@link SegmentedTable.mix}, so that it is made once however many calls a change needs.
 */
import { MapFullError } from "../errors.js";
import { unitsIn } from "./graded.js";
import { positionOf, SPACE_BITS } from "./key-space.js";
import { type MixSeed, mix64 } from "./mix.js";
import {
	erase,
	findNth,
	findValue,
	forEachEntry,
	homeOf,
	place,
	SEGMENT_SLOTS,
	SEGMENT_WORDS,
	valueIn,
	valueInOrPlace,
} from "./segment.js";
import type { WordPool } from "./word-pool.js";

/** An enum for the reason given in segment.ts. A segment's number is slab ‖ index; a slab has up to 16 (see graded.ts). */
enum SegmentNumber {
	IndexBits = 4,
	IndexMask = (1 << IndexBits) - 1,
}
/** Segments that a number can tell apart in one slab. */
export const SLAB_SEGMENTS: number = SegmentNumber.IndexMask + 1;
/** Slots used before a segment splits. */
const SPLIT_AT = Math.floor(SEGMENT_SLOTS * 0.9);
/** Two neighbors join when both fit in this many slots; the distance to `SPLIT_AT` keeps them from flapping. */
const JOIN_AT = Math.floor(SEGMENT_SLOTS * 0.83);
/** A segment above this size does not look for a neighbor to join. */
const JOIN_CANDIDATE = JOIN_AT >>> 1;
/** Most bits of the position that the directory may use. */
const MAX_DEPTH = 22;
/**
 * Most entries of the directory per segment. Keys that spread as mixed ones do need about four; a table whose keys do not
 * split is full, rather than let the directory double over and over.
 */
const MAX_SPREAD = 64;

/** See the comment at the top of this file. All words are signed 32-bit; a value is never 0. */
export class SegmentedTable {
	readonly #pool: WordPool;
	readonly #maxDepth: number;
	readonly #k0: number;
	readonly #m0: number;
	readonly #k1: number;
	readonly #m1: number;
	#slabs: Int32Array[] = [];
	#directory = new Int32Array(1);
	#depth = 0;
	/** Low bits of a position that the directory leaves out. */
	#shift = SPACE_BITS;
	/** Number of the next segment. */
	#next = 0;
	#segments = 0;
	#slabBytes = 0;
	/** Per segment: used slots, bits of its prefix, and the prefix. */
	#used = new Int32Array(SegmentNumber.IndexMask + 1);
	#depths = new Uint8Array(SegmentNumber.IndexMask + 1);
	#prefixes = new Int32Array(SegmentNumber.IndexMask + 1);
	/** For {@link touchMany}: the slab of each key. */
	#touchSlabs = new Int32Array(0);
	/** A segment while it is split. */
	readonly #scratch = new Int32Array(SEGMENT_WORDS);
	readonly #mix = (high: number, low: number) => this.mix(high, low);
	#size = 0;

	/** `depth`, where it is less than the table is made for, limits its growth to 2 to the power of it segments. */
	constructor(seed: MixSeed, pool: WordPool, depth = MAX_DEPTH) {
		this.#pool = pool;
		this.#maxDepth = Math.min(depth, MAX_DEPTH);
		this.#k0 = seed[0] as number;
		this.#m0 = seed[1] as number;
		this.#k1 = seed[2] as number;
		this.#m1 = seed[3] as number;
		this.#newSegment(0, 0);
	}

	/** Number of stored values. */
	get size(): number {
		return this.#size;
	}

	/** Bytes of all buffers. */
	get bytes(): number {
		return (
			this.#slabBytes +
			this.#directory.byteLength +
			this.#used.byteLength +
			this.#depths.byteLength +
			this.#prefixes.byteLength +
			this.#scratch.byteLength
		);
	}

	/** Gives all buffers back. The table must not be used any more. */
	dispose(): void {
		for (const slab of this.#slabs.splice(0)) this.#pool.give(slab);
	}

	/** The mixed hash of a key, under which this table files it. */
	mix(high: number, low: number): number {
		// The zeros say that these are 32-bit integers.
		const m0 = this.#m0 | 0;
		const m1 = this.#m1 | 0;
		return mix64(high, low, this.#k0 | 0, m0, this.#k1 | 0, m1);
	}

	/** Reads the slot a key would be in, which brings it into the cache. The value means nothing. */
	touch(mixed: number): number {
		const segment = this.#segmentOf(mixed);
		return this.#slabOf(segment)[baseOf(segment) + homeOf(mixed)] as number;
	}

	/**
	 * {@link touch} for the first `count` of many keys, whose mixed hashes it overwrites. Where they are is worked out before
	 * any is read: the fewer instructions between two reads, the more of them a processor waits for at a time.
	 */
	touchMany(mixed: Int32Array, count: number): number {
		if (this.#touchSlabs.length < count)
			this.#touchSlabs = new Int32Array(count);
		const slabs = this.#slabs;
		const inSlabs = this.#touchSlabs;
		for (let i = 0; i < count; i++) {
			const m = mixed[i] as number;
			const segment = this.#segmentOf(m);
			inSlabs[i] = segment >>> SegmentNumber.IndexBits;
			mixed[i] = baseOf(segment) + homeOf(m);
		}
		let read = 0;
		for (let i = 0; i < count; i++)
			read ^= (slabs[inSlabs[i] as number] as Int32Array)[
				mixed[i] as number
			] as number;
		return read;
	}

	/** The first value stored under a key, 0 when there is none. */
	get(mixed: number, high: number, low: number): number {
		const segment = this.#segmentOf(mixed);
		const words = this.#slabs[segment >>> SegmentNumber.IndexBits];
		const index = segment & SegmentNumber.IndexMask;
		return valueIn(words as Int32Array, index, mixed, high, low);
	}

	/** The value stored under a key after `skip` others, 0 when there is none. */
	getNth(mixed: number, high: number, low: number, skip: number): number {
		const segment = this.#segmentOf(mixed);
		const slab = this.#slabOf(segment);
		const at = findNth(slab, baseOf(segment), mixed, high, low, skip);
		return at < 0 ? 0 : (slab[at] as number);
	}

	/**
	 * The first value stored under a key. Where there is none, stores this one, and gives 0.
	 * @throws MapFullError when the segment concerned can no longer split; nothing was stored then.
	 */
	getOrInsert(mixed: number, high: number, low: number, value: number): number {
		const segment = this.#segmentOf(mixed);
		const used = this.#used[segment] as number;
		if (used >= SPLIT_AT) {
			const found = this.get(mixed, high, low);
			if (found === 0) this.insert(mixed, high, low, value);
			return found;
		}
		const words = this.#slabs[segment >>> SegmentNumber.IndexBits];
		const found = valueInOrPlace(
			words as Int32Array,
			segment & SegmentNumber.IndexMask,
			mixed,
			high,
			low,
			value,
		);
		if (found !== 0) return found;
		this.#used[segment] = used + 1;
		this.#size++;
		return 0;
	}

	/**
	 * Stores a further value under a key.
	 * @throws MapFullError when the segment concerned can no longer split; nothing was stored then.
	 */
	insert(mixed: number, high: number, low: number, value: number): void {
		let segment = this.#segmentOf(mixed);
		while ((this.#used[segment] as number) >= SPLIT_AT) {
			this.#split(segment);
			segment = this.#segmentOf(mixed);
		}
		this.#place(segment, mixed, high, low, value);
		this.#size++;
	}

	/** Replaces one value of a key by another. False when the key has no such value. */
	replace(
		mixed: number,
		high: number,
		low: number,
		from: number,
		to: number,
	): boolean {
		const segment = this.#segmentOf(mixed);
		const slab = this.#slabOf(segment);
		const at = findValue(slab, baseOf(segment), mixed, high, low, from);
		if (at < 0) return false;
		slab[at] = to;
		return true;
	}

	/** Removes one value of a key. False when the key has no such value. */
	remove(mixed: number, high: number, low: number, value: number): boolean {
		const segment = this.#segmentOf(mixed);
		const slab = this.#slabOf(segment);
		const base = baseOf(segment);
		const at = findValue(slab, base, mixed, high, low, value);
		if (at < 0) return false;
		erase(slab, base, at, this.#mix);
		const used = ((this.#used[segment] as number) - 1) | 0;
		this.#used[segment] = used;
		this.#size--;
		if (used <= JOIN_CANDIDATE && (used & 15) === 0) this.#join(segment);
		return true;
	}

	/** Calls `visit` for every value. */
	forEachValue(visit: (value: number) => void): void {
		for (const [slab, words] of this.#slabs.entries())
			for (let index = 0; index < unitsIn(slab); index++)
				forEachEntry(words, index * SEGMENT_WORDS, (_high, _low, value) =>
					visit(value),
				);
	}

	#segmentOf(mixed: number): number {
		return this.#directory[positionOf(mixed) >>> this.#shift] as number;
	}

	#slabOf(segment: number): Int32Array {
		return this.#slabs[segment >>> SegmentNumber.IndexBits] as Int32Array;
	}

	#place(
		segment: number,
		mixed: number,
		high: number,
		low: number,
		value: number,
	): void {
		place(this.#slabOf(segment), baseOf(segment), mixed, high, low, value);
		this.#used[segment] = (this.#used[segment] as number) + 1;
	}

	#split(segment: number): void {
		const depth = this.#depths[segment] as number;
		const doubles = depth === this.#depth;
		if (
			depth >= this.#maxDepth ||
			(doubles && 2 << depth > MAX_SPREAD * (this.#segments + 1))
		)
			throw new MapFullError("segment", this.#size);
		// What can fail for want of memory comes before what changes anything.
		this.#reserve();
		if (doubles) this.#doubleDirectory();
		const prefix = (this.#prefixes[segment] as number) << 1;
		this.#depths[segment] = depth + 1;
		this.#prefixes[segment] = prefix;
		const right = this.#newSegment(prefix | 1, depth + 1);
		const bit = SPACE_BITS - depth - 1;
		// Written anew rather than thinned out: entries that other ones had displaced come home.
		const slab = this.#slabOf(segment);
		const base = baseOf(segment);
		const rightSlab = this.#slabOf(right);
		const rightBase = baseOf(right);
		this.#scratch.set(slab.subarray(base, base + SEGMENT_WORDS));
		slab.fill(0, base, base + SEGMENT_WORDS);
		let moved = 0;
		forEachEntry(this.#scratch, 0, (high, low, value) => {
			const mixed = this.mix(high, low);
			const goes = (positionOf(mixed) >>> bit) & 1;
			moved += goes;
			if (goes === 1) place(rightSlab, rightBase, mixed, high, low, value);
			else place(slab, base, mixed, high, low, value);
		});
		this.#used[segment] = (this.#used[segment] as number) - moved;
		this.#used[right] = moved;
	}

	/** Joins a segment with its neighbor where that is of the same depth and both fit. */
	#join(segment: number): void {
		const depth = this.#depths[segment] as number;
		if (depth === 0) return;
		const prefix = this.#prefixes[segment] as number;
		const other = this.#directory[
			(prefix ^ 1) << (this.#depth - depth)
		] as number;
		const sum = (this.#used[segment] as number) + (this.#used[other] as number);
		if (this.#depths[other] !== depth || sum > JOIN_AT) return;
		const slab = this.#slabOf(other);
		forEachEntry(slab, baseOf(other), (high, low, value) => {
			this.#place(segment, this.mix(high, low), high, low, value);
		});
		this.#clear(other);
		this.#depths[segment] = depth - 1;
		this.#prefixes[segment] = prefix >>> 1;
		this.#route(segment);
		this.#freeSegment(other);
	}

	#clear(segment: number): void {
		const base = baseOf(segment);
		this.#slabOf(segment).fill(0, base, base + SEGMENT_WORDS);
		this.#used[segment] = 0;
	}

	/** Makes sure that there are buffers for the next segment. */
	#reserve(): void {
		const segment = this.#next;
		const slab = segment >>> SegmentNumber.IndexBits;
		if (slab === this.#slabs.length) {
			const words = this.#pool.take(unitsIn(slab) * SEGMENT_WORDS);
			this.#slabs.push(words);
			this.#slabBytes += words.byteLength;
		}
		while (segment >= this.#used.length) {
			this.#used = widened(this.#used, Int32Array);
			this.#depths = widened(this.#depths, Uint8Array);
			this.#prefixes = widened(this.#prefixes, Int32Array);
		}
	}

	#newSegment(prefix: number, depth: number): number {
		this.#reserve();
		const segment = this.#next;
		const slab = segment >>> SegmentNumber.IndexBits;
		const inSlab = (segment & SegmentNumber.IndexMask) + 1;
		this.#next =
			inSlab < unitsIn(slab)
				? segment + 1
				: (slab + 1) << SegmentNumber.IndexBits;
		this.#segments++;
		this.#used[segment] = 0;
		this.#depths[segment] = depth;
		this.#prefixes[segment] = prefix;
		this.#route(segment);
		return segment;
	}

	/** Gives an empty segment back; the last one takes its number, and slabs that are no longer needed go. */
	#freeSegment(segment: number): void {
		const slab = (this.#next - 1) >>> SegmentNumber.IndexBits;
		const index = this.#next & SegmentNumber.IndexMask;
		const last =
			index > 0
				? this.#next - 1
				: (slab << SegmentNumber.IndexBits) + unitsIn(slab) - 1;
		this.#next = last;
		this.#segments--;
		if (last !== segment) {
			const from = this.#slabOf(last);
			const base = baseOf(last);
			this.#slabOf(segment).set(
				from.subarray(base, base + SEGMENT_WORDS),
				baseOf(segment),
			);
			this.#used[segment] = this.#used[last] as number;
			this.#clear(last);
			this.#depths[segment] = this.#depths[last] as number;
			this.#prefixes[segment] = this.#prefixes[last] as number;
			this.#route(segment);
		}
		// A slab goes when it is empty and the one before it has some room, so that nothing flaps.
		const spare = this.#slabs.length - 1;
		if (last >>> SegmentNumber.IndexBits < spare) {
			const words = this.#slabs.pop() as Int32Array;
			this.#slabBytes -= words.byteLength;
			this.#pool.give(words);
		}
	}

	/** Points the directory's range of a segment at it. */
	#route(segment: number): void {
		const spare = this.#depth - (this.#depths[segment] as number);
		const from = (this.#prefixes[segment] as number) << spare;
		this.#directory.fill(segment, from, from + (1 << spare));
	}

	#doubleDirectory(): void {
		const old = this.#directory;
		const next = new Int32Array(old.length * 2);
		for (let i = 0; i < old.length; i++) {
			const segment = old[i] as number;
			next[2 * i] = segment;
			next[2 * i + 1] = segment;
		}
		this.#directory = next;
		this.#depth++;
		this.#shift--;
	}
}

/** Word at which a segment begins in its slab. */
function baseOf(segment: number): number {
	return (segment & SegmentNumber.IndexMask) * SEGMENT_WORDS;
}

function widened<T extends Int32Array | Uint8Array>(
	old: T,
	type: new (length: number) => T,
): T {
	const next = new type(old.length * 2);
	next.set(old);
	return next;
}
