/**
 * A hash table from 64-bit keys to 32-bit values that never stalls: open addressing in segments of 2,048 slots. A full
 * segment splits in two on its own, a sparse one joins its neighbor, so that the longest step rewrites one segment.
 *
 * Segments are numbered densely and live in slabs of 16. Splits of equally loaded segments would all fall due together
 * and halve the load of the whole table; the key space is therefore divided unevenly (by up to a factor of two),
 * which spreads the splits evenly over growth and keeps the load of the whole near 64 %.
 *
 * The same key may be present several times with different values.
 */
import { MapFullError } from "../errors.js";
import { type MixSeed, mix64 } from "./mix.js";
import type { WordPool } from "./word-pool.js";

const SLOT_BITS = 11;
const SLOTS = 1 << SLOT_BITS;
const SLOT_MASK = SLOTS - 1;
const SLOT_WORDS = 3;
const SEGMENT_WORDS = SLOTS * SLOT_WORDS;
const SLAB_BITS = 4;
const SLAB_MASK = (1 << SLAB_BITS) - 1;
/** Slots used before a segment splits. */
const SPLIT_AT = Math.floor(SLOTS * 0.9);
/** Two neighbors join when both fit in this many slots; the distance to `SPLIT_AT` keeps them from flapping. */
const JOIN_AT = Math.floor(SLOTS * 0.83);
/** A segment above this size does not look for a neighbor to join. */
const JOIN_CANDIDATE = JOIN_AT >>> 1;
/** Positions in the divided key space. */
const SPACE_BITS = 24;
/** Most bits of the position that the directory may use. */
const MAX_DEPTH = 22;
const FIBONACCI = 0x9e3779b1 | 0;

/** Start and stretch of each sixteenth of the mixed range in the divided space: shares fall geometrically. */
const PIECE_START = new Float64Array(16);
const PIECE_SCALE = new Float64Array(16);
{
	const total = Array.from({ length: 16 }, (_, i) => 2 ** (-i / 16));
	const sum = total.reduce((a, b) => a + b, 0);
	let start = 0;
	for (let i = 0; i < 16; i++) {
		const width = ((total[i] as number) / sum) * 2 ** SPACE_BITS;
		PIECE_START[i] = start;
		PIECE_SCALE[i] = width / 2 ** 20;
		start += width;
	}
}

/** Position of a mixed hash in the divided space, 0 to 2^24-1. */
function position(mixed: number): number {
	const piece = mixed >>> 28;
	return (
		((PIECE_START[piece] as number) +
			((mixed >>> 8) & 0xfffff) * (PIECE_SCALE[piece] as number)) |
		0
	);
}

/** First slot to look at for a mixed hash. */
function home(mixed: number): number {
	return Math.imul(mixed, FIBONACCI) >>> (32 - SLOT_BITS);
}

/** See the comment at the top of this file. All words are signed 32-bit; a value is never 0. */
export class SegmentedTable {
	readonly #pool: WordPool;
	readonly #k0: number;
	readonly #m0: number;
	readonly #k1: number;
	readonly #m1: number;
	/** Slots: high word, low word, value; a value of 0 marks a free slot. */
	#slabs: Int32Array[] = [];
	#directory = new Int32Array(1);
	#depth = 0;
	#segments = 0;
	/** Per segment: used slots, bits of its prefix, and the prefix. */
	#used = new Int32Array(SLAB_MASK + 1);
	#depths = new Uint8Array(SLAB_MASK + 1);
	#prefixes = new Int32Array(SLAB_MASK + 1);
	#scratch = new Int32Array(SEGMENT_WORDS);
	#size = 0;

	constructor(seed: MixSeed, pool: WordPool) {
		this.#pool = pool;
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
			this.#slabs.length * (SLAB_MASK + 1) * SEGMENT_WORDS * 4 +
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

	/** The first value stored under a key, 0 when there is none. */
	get(high: number, low: number): number {
		const mixed = mix64(high, low, this.#k0, this.#m0, this.#k1, this.#m1);
		const segment = this.#segmentOf(mixed);
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		const base = (segment & SLAB_MASK) * SEGMENT_WORDS;
		let slot = home(mixed);
		for (;;) {
			const at = base + slot * SLOT_WORDS;
			const value = slab[at + 2] as number;
			if (value === 0 || (slab[at + 1] === low && slab[at] === high))
				return value;
			slot = (slot + 1) & SLOT_MASK;
		}
	}

	/** The value stored under a key after `skip` others, 0 when there is none. */
	getNth(high: number, low: number, skip: number): number {
		const mixed = this.#mix(high, low);
		const segment = this.#segmentOf(mixed);
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		const base = (segment & SLAB_MASK) * SEGMENT_WORDS;
		let left = skip;
		let slot = home(mixed);
		for (;;) {
			const at = base + slot * SLOT_WORDS;
			const value = slab[at + 2] as number;
			if (value === 0) return 0;
			if (slab[at] === high && slab[at + 1] === low && left-- === 0)
				return value;
			slot = (slot + 1) & SLOT_MASK;
		}
	}

	/**
	 * {@link get} for many keys: `pairs` holds high and low words in turn, the values go to `out`. Reads every first slot
	 * before it follows any, so that the waits for memory overlap.
	 */
	getMany(pairs: Int32Array, count: number, out: Int32Array): void {
		const { mixed, segment } = this.#batchScratch(count);
		for (let i = 0; i < count; i++) {
			const m = this.#mix(pairs[2 * i] as number, pairs[2 * i + 1] as number);
			mixed[i] = m;
			segment[i] = this.#segmentOf(m);
		}
		for (let i = 0; i < count; i++) {
			const s = segment[i] as number;
			const slab = this.#slabs[s >>> SLAB_BITS] as Int32Array;
			const at =
				(s & SLAB_MASK) * SEGMENT_WORDS + home(mixed[i] as number) * SLOT_WORDS;
			out[i] = slab[at + 2] as number;
		}
		for (let i = 0; i < count; i++) {
			const s = segment[i] as number;
			const slab = this.#slabs[s >>> SLAB_BITS] as Int32Array;
			const base = (s & SLAB_MASK) * SEGMENT_WORDS;
			const high = pairs[2 * i] as number;
			const low = pairs[2 * i + 1] as number;
			let slot = home(mixed[i] as number);
			let value = out[i] as number;
			while (value !== 0) {
				const at = base + slot * SLOT_WORDS;
				if (slab[at + 1] === low && slab[at] === high) break;
				slot = (slot + 1) & SLOT_MASK;
				value = slab[base + slot * SLOT_WORDS + 2] as number;
			}
			out[i] = value;
		}
	}

	/**
	 * Stores a further value under a key.
	 * @throws MapFullError when the segment concerned can no longer split; nothing was stored then.
	 */
	insert(high: number, low: number, value: number): void {
		const mixed = this.#mix(high, low);
		let segment = this.#segmentOf(mixed);
		while ((this.#used[segment] as number) >= SPLIT_AT) {
			this.#split(segment);
			segment = this.#segmentOf(mixed);
		}
		this.#place(segment, mixed, high, low, value);
		this.#size++;
	}

	/** Replaces one value of a key by another. False when the key has no such value. */
	replace(high: number, low: number, from: number, to: number): boolean {
		const mixed = this.#mix(high, low);
		const segment = this.#segmentOf(mixed);
		const slot = this.#find(segment, mixed, high, low, from);
		if (slot < 0) return false;
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		slab[(segment & SLAB_MASK) * SEGMENT_WORDS + slot * SLOT_WORDS + 2] = to;
		return true;
	}

	/** Removes one value of a key. False when the key has no such value. */
	remove(high: number, low: number, value: number): boolean {
		const mixed = this.#mix(high, low);
		const segment = this.#segmentOf(mixed);
		const slot = this.#find(segment, mixed, high, low, value);
		if (slot < 0) return false;
		this.#closeGap(segment, slot);
		const used = ((this.#used[segment] as number) - 1) | 0;
		this.#used[segment] = used;
		this.#size--;
		if (used <= JOIN_CANDIDATE && (used & 15) === 0) this.#join(segment);
		return true;
	}

	#batch: { mixed: Int32Array; segment: Int32Array } | undefined;

	#batchScratch(count: number): { mixed: Int32Array; segment: Int32Array } {
		if (this.#batch === undefined || this.#batch.mixed.length < count)
			this.#batch = {
				mixed: new Int32Array(count),
				segment: new Int32Array(count),
			};
		return this.#batch;
	}

	#mix(high: number, low: number): number {
		return mix64(high, low, this.#k0, this.#m0, this.#k1, this.#m1);
	}

	#segmentOf(mixed: number): number {
		return this.#directory[
			position(mixed) >>> (SPACE_BITS - this.#depth)
		] as number;
	}

	#find(
		segment: number,
		mixed: number,
		high: number,
		low: number,
		value: number,
	): number {
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		const base = (segment & SLAB_MASK) * SEGMENT_WORDS;
		let slot = home(mixed);
		for (;;) {
			const at = base + slot * SLOT_WORDS;
			const found = slab[at + 2] as number;
			if (found === 0) return -1;
			if (found === value && slab[at] === high && slab[at + 1] === low)
				return slot;
			slot = (slot + 1) & SLOT_MASK;
		}
	}

	#place(
		segment: number,
		mixed: number,
		high: number,
		low: number,
		value: number,
	): void {
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		const base = (segment & SLAB_MASK) * SEGMENT_WORDS;
		let slot = home(mixed);
		while (slab[base + slot * SLOT_WORDS + 2] !== 0)
			slot = (slot + 1) & SLOT_MASK;
		const at = base + slot * SLOT_WORDS;
		slab[at] = high;
		slab[at + 1] = low;
		slab[at + 2] = value;
		this.#used[segment] = (this.#used[segment] as number) + 1;
	}

	/** Moves later slots of the run back over a removed one, so that no look-up stops early. */
	#closeGap(segment: number, removed: number): void {
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		const base = (segment & SLAB_MASK) * SEGMENT_WORDS;
		let gap = removed;
		let slot = removed;
		for (;;) {
			slot = (slot + 1) & SLOT_MASK;
			const at = base + slot * SLOT_WORDS;
			const value = slab[at + 2] as number;
			if (value === 0) break;
			const high = slab[at] as number;
			const low = slab[at + 1] as number;
			const start = home(this.#mix(high, low));
			if (((slot - start) & SLOT_MASK) < ((slot - gap) & SLOT_MASK)) continue;
			const to = base + gap * SLOT_WORDS;
			slab[to] = high;
			slab[to + 1] = low;
			slab[to + 2] = value;
			gap = slot;
		}
		slab[base + gap * SLOT_WORDS + 2] = 0;
	}

	#split(segment: number): void {
		const depth = this.#depths[segment] as number;
		if (depth >= MAX_DEPTH) throw new MapFullError("segment", this.#size);
		if (depth === this.#depth) this.#doubleDirectory();
		const prefix = (this.#prefixes[segment] as number) << 1;
		const scratch = this.#lift(segment);
		this.#depths[segment] = depth + 1;
		this.#prefixes[segment] = prefix;
		const right = this.#newSegment(prefix | 1, depth + 1);
		const bit = SPACE_BITS - depth - 1;
		for (let at = 0; at < SEGMENT_WORDS; at += SLOT_WORDS) {
			const value = scratch[at + 2] as number;
			if (value === 0) continue;
			const high = scratch[at] as number;
			const low = scratch[at + 1] as number;
			const mixed = this.#mix(high, low);
			const target = (position(mixed) >>> bit) & 1 ? right : segment;
			this.#place(target, mixed, high, low, value);
		}
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
		const scratch = this.#lift(other);
		for (let at = 0; at < SEGMENT_WORDS; at += SLOT_WORDS) {
			const value = scratch[at + 2] as number;
			if (value === 0) continue;
			const high = scratch[at] as number;
			const low = scratch[at + 1] as number;
			this.#place(segment, this.#mix(high, low), high, low, value);
		}
		this.#depths[segment] = depth - 1;
		this.#prefixes[segment] = prefix >>> 1;
		this.#route(segment);
		this.#freeSegment(other);
	}

	/** Copies a segment to the scratch buffer and empties it. */
	#lift(segment: number): Int32Array {
		const slab = this.#slabs[segment >>> SLAB_BITS] as Int32Array;
		const base = (segment & SLAB_MASK) * SEGMENT_WORDS;
		this.#scratch.set(slab.subarray(base, base + SEGMENT_WORDS));
		slab.fill(0, base, base + SEGMENT_WORDS);
		this.#used[segment] = 0;
		return this.#scratch;
	}

	#newSegment(prefix: number, depth: number): number {
		const segment = this.#segments;
		if (segment >>> SLAB_BITS === this.#slabs.length)
			this.#slabs.push(this.#pool.take((SLAB_MASK + 1) * SEGMENT_WORDS));
		if (segment === this.#used.length) {
			this.#used = widened(this.#used, Int32Array);
			this.#depths = widened(this.#depths, Uint8Array);
			this.#prefixes = widened(this.#prefixes, Int32Array);
		}
		this.#segments++;
		this.#used[segment] = 0;
		this.#depths[segment] = depth;
		this.#prefixes[segment] = prefix;
		this.#route(segment);
		return segment;
	}

	/** Gives an empty segment back; the last one takes its number, and slabs that are no longer needed go. */
	#freeSegment(segment: number): void {
		const last = --this.#segments;
		if (last !== segment) {
			const from = this.#slabs[last >>> SLAB_BITS] as Int32Array;
			const base = (last & SLAB_MASK) * SEGMENT_WORDS;
			(this.#slabs[segment >>> SLAB_BITS] as Int32Array).set(
				from.subarray(base, base + SEGMENT_WORDS),
				(segment & SLAB_MASK) * SEGMENT_WORDS,
			);
			from.fill(0, base, base + SEGMENT_WORDS);
			this.#used[segment] = this.#used[last] as number;
			this.#depths[segment] = this.#depths[last] as number;
			this.#prefixes[segment] = this.#prefixes[last] as number;
			this.#route(segment);
		}
		// A slab goes when it is empty and the one before it has some room, so that nothing flaps.
		const room = (this.#slabs.length << SLAB_BITS) - this.#segments;
		if (room >= SLAB_MASK + 3) this.#pool.give(this.#slabs.pop() as Int32Array);
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
	}
}

function widened<T extends Int32Array | Uint8Array>(
	old: T,
	type: new (length: number) => T,
): T {
	const next = new type(old.length * 2);
	next.set(old);
	return next;
}
