/**
 * One segment of a hash table, as functions over the words it lies in: 2,048 slots `[high word, low word, value]` with open
 * addressing and linear probing. A value is never 0, and 0 marks a free slot. A slot and what follows it mostly lie in one
 * line of the cache, so that a look-up waits for memory once.
 */

/**
 * Members of an enum end up in the code as plain numbers. A constant of a module would be loaded and checked at every use,
 * imported or bundled ones even in optimized code: with them a look-up had so many instructions that the processor could
 * not begin the next one while this one waits for memory.
 */
enum Layout {
	SlotBits = 11,
	SlotMask = (1 << SlotBits) - 1,
	SlotWords = 3,
	Low = 1,
	Value = 2,
	Words = SlotWords << SlotBits,
	/** The golden ratio in 32 bits: spreads mixed hashes of one segment over its slots. */
	Fibonacci = 0x9e3779b1 | 0,
}

/** Slots of a segment. */
export const SEGMENT_SLOTS: number = 1 << Layout.SlotBits;
/** Words of a segment. */
export const SEGMENT_WORDS: number = Layout.Words;

/** Gives the mixed hash under which an entry is filed. */
export type Mix = (high: number, low: number) => number;

/** Word, within a segment, of the slot at which a look-up begins. */
export function homeOf(mixed: number): number {
	return slotOf(mixed) * Layout.SlotWords;
}

/** The first value stored under a key, 0 when there is none. `index` is the number of the segment in `words`. */
export function valueIn(
	words: Int32Array,
	index: number,
	mixed: number,
	high: number,
	low: number,
): number {
	const base = index * Layout.Words;
	let slot = Math.imul(mixed, Layout.Fibonacci) >>> (32 - Layout.SlotBits);
	for (;;) {
		const at = (base + slot * Layout.SlotWords) | 0;
		const value = words[(at + Layout.Value) | 0] as number;
		if (value === 0) return 0;
		if (words[(at + Layout.Low) | 0] === low && words[at] === high)
			return value;
		slot = (slot + 1) & Layout.SlotMask;
	}
}

/** {@link valueIn} for a segment that has a free slot: a key without a value is given this one, and the answer is 0. */
export function valueInOrPlace(
	words: Int32Array,
	index: number,
	mixed: number,
	high: number,
	low: number,
	value: number,
): number {
	const base = index * Layout.Words;
	let slot = Math.imul(mixed, Layout.Fibonacci) >>> (32 - Layout.SlotBits);
	for (;;) {
		const at = (base + slot * Layout.SlotWords) | 0;
		const found = words[(at + Layout.Value) | 0] as number;
		if (found === 0) {
			words[at] = high;
			words[(at + Layout.Low) | 0] = low;
			words[(at + Layout.Value) | 0] = value;
			return 0;
		}
		if (words[(at + Layout.Low) | 0] === low && words[at] === high)
			return found;
		slot = (slot + 1) & Layout.SlotMask;
	}
}

/** Word of one certain value of a key, -1 when the key does not have it. `base` is where the segment begins in `words`. */
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
		const at = base + slot * Layout.SlotWords;
		const found = words[at + Layout.Value];
		if (found === 0) return -1;
		if (found === value && words[at + Layout.Low] === low && words[at] === high)
			return at + Layout.Value;
		slot = (slot + 1) & Layout.SlotMask;
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
		const at = base + slot * Layout.SlotWords;
		if (words[at + Layout.Value] === 0) return -1;
		if (words[at + Layout.Low] === low && words[at] === high && left-- === 0)
			return at + Layout.Value;
		slot = (slot + 1) & Layout.SlotMask;
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
	let at = base + slot * Layout.SlotWords;
	while (words[at + Layout.Value] !== 0) {
		slot = (slot + 1) & Layout.SlotMask;
		at = base + slot * Layout.SlotWords;
	}
	words[at] = high;
	words[at + Layout.Low] = low;
	words[at + Layout.Value] = value;
}

/** Frees the slot whose value is at `word`. Entries after it that had to pass it move up, so that no look-up ends too early. */
export function erase(
	words: Int32Array,
	base: number,
	word: number,
	mix: Mix,
): void {
	let gap = (word - base - Layout.Value) / Layout.SlotWords;
	let slot = gap;
	for (;;) {
		slot = (slot + 1) & Layout.SlotMask;
		const at = base + slot * Layout.SlotWords;
		if (words[at + Layout.Value] === 0) break;
		const home = slotOf(
			mix(words[at] as number, words[at + Layout.Low] as number),
		);
		// It stays when its home lies behind the gap.
		if (((slot - home) & Layout.SlotMask) < ((slot - gap) & Layout.SlotMask))
			continue;
		const to = base + gap * Layout.SlotWords;
		words[to] = words[at] as number;
		words[to + Layout.Low] = words[at + Layout.Low] as number;
		words[to + Layout.Value] = words[at + Layout.Value] as number;
		gap = slot;
	}
	words[base + gap * Layout.SlotWords + Layout.Value] = 0;
}

/** Calls `visit` for every entry. */
export function forEachEntry(
	words: Int32Array,
	base: number,
	visit: (high: number, low: number, value: number) => void,
): void {
	for (let at = base; at < base + SEGMENT_WORDS; at += Layout.SlotWords) {
		const value = words[at + Layout.Value] as number;
		if (value !== 0)
			visit(words[at] as number, words[at + Layout.Low] as number, value);
	}
}

function slotOf(mixed: number): number {
	return Math.imul(mixed, Layout.Fibonacci) >>> (32 - Layout.SlotBits);
}
