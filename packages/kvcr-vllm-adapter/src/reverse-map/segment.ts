/**
 * One segment of a hash table, as functions over the words it lies in: 2,048 slots `[high word, low word, value]` with open
 * addressing and linear probing. A value is never 0, and 0 marks a free slot. A slot and what follows it mostly lie in one
 * line of the cache, so that a look-up waits for memory once.
 */

const SLOT_BITS = 11;
const SLOT_MASK = (1 << SLOT_BITS) - 1;
const SLOT_WORDS = 3;
const LOW = 1;
const VALUE = 2;

/** Slots of a segment. */
export const SEGMENT_SLOTS = 1 << SLOT_BITS;
/** Words of a segment. */
export const SEGMENT_WORDS = SEGMENT_SLOTS * SLOT_WORDS;

/** The golden ratio in 32 bits: spreads mixed hashes of one segment over its slots. */
const FIBONACCI = 0x9e3779b1 | 0;

/** Gives the mixed hash under which an entry is filed. */
export type Mix = (high: number, low: number) => number;

/** Word, within a segment, of the slot at which a look-up begins. */
export function homeOf(mixed: number): number {
	return slotOf(mixed) * SLOT_WORDS;
}

/** Word of the first value stored under a key, -1 when there is none. `base` is where the segment begins in `words`. */
export function find(
	words: Int32Array,
	base: number,
	mixed: number,
	high: number,
	low: number,
): number {
	let slot = slotOf(mixed);
	for (;;) {
		const at = base + slot * SLOT_WORDS;
		if (words[at + VALUE] === 0) return -1;
		if (words[at + LOW] === low && words[at] === high) return at + VALUE;
		slot = (slot + 1) & SLOT_MASK;
	}
}

/** Word of one certain value of a key, -1 when the key does not have it. */
export function findValue(
	words: Int32Array,
	base: number,
	mixed: number,
	high: number,
	low: number,
	value: number,
): number {
	let slot = slotOf(mixed);
	for (;;) {
		const at = base + slot * SLOT_WORDS;
		const found = words[at + VALUE];
		if (found === 0) return -1;
		if (found === value && words[at + LOW] === low && words[at] === high)
			return at + VALUE;
		slot = (slot + 1) & SLOT_MASK;
	}
}

/** Word of the value stored under a key after `skip` others, -1 when there is none. */
export function findNth(
	words: Int32Array,
	base: number,
	mixed: number,
	high: number,
	low: number,
	skip: number,
): number {
	let left = skip;
	let slot = slotOf(mixed);
	for (;;) {
		const at = base + slot * SLOT_WORDS;
		if (words[at + VALUE] === 0) return -1;
		if (words[at + LOW] === low && words[at] === high && left-- === 0)
			return at + VALUE;
		slot = (slot + 1) & SLOT_MASK;
	}
}

/** Stores a value in a segment that has a free slot. */
export function place(
	words: Int32Array,
	base: number,
	mixed: number,
	high: number,
	low: number,
	value: number,
): void {
	let slot = slotOf(mixed);
	let at = base + slot * SLOT_WORDS;
	while (words[at + VALUE] !== 0) {
		slot = (slot + 1) & SLOT_MASK;
		at = base + slot * SLOT_WORDS;
	}
	words[at] = high;
	words[at + LOW] = low;
	words[at + VALUE] = value;
}

/** Frees the slot whose value is at `word`. Entries after it that had to pass it move up, so that no look-up ends too early. */
export function erase(
	words: Int32Array,
	base: number,
	word: number,
	mix: Mix,
): void {
	let gap = (word - base - VALUE) / SLOT_WORDS;
	let slot = gap;
	for (;;) {
		slot = (slot + 1) & SLOT_MASK;
		const at = base + slot * SLOT_WORDS;
		if (words[at + VALUE] === 0) break;
		const home = slotOf(mix(words[at] as number, words[at + LOW] as number));
		// It stays when its home lies behind the gap.
		if (((slot - home) & SLOT_MASK) < ((slot - gap) & SLOT_MASK)) continue;
		const to = base + gap * SLOT_WORDS;
		words[to] = words[at] as number;
		words[to + LOW] = words[at + LOW] as number;
		words[to + VALUE] = words[at + VALUE] as number;
		gap = slot;
	}
	words[base + gap * SLOT_WORDS + VALUE] = 0;
}

/** Calls `visit` for every entry. */
export function forEachEntry(
	words: Int32Array,
	base: number,
	visit: (high: number, low: number, value: number) => void,
): void {
	for (let at = base; at < base + SEGMENT_WORDS; at += SLOT_WORDS) {
		const value = words[at + VALUE] as number;
		if (value !== 0)
			visit(words[at] as number, words[at + LOW] as number, value);
	}
}

function slotOf(mixed: number): number {
	return Math.imul(mixed, FIBONACCI) >>> (32 - SLOT_BITS);
}
