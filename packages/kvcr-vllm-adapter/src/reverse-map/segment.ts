/**
 * One segment of a hash table, as functions over the words it lies in: 512 buckets of 64 bytes, which is what a processor
 * fetches from memory at once. A look-up waits for one bucket, whether it finds something or not.
 *
 * A bucket has five slots, `[5 low words, 5 high words, 5 values, state]`; a value is never 0, and 0 marks a free slot.
 * What does not fit goes to the next bucket. The state has a bit per used slot (low 5 bits) and, above them, the number of
 * entries that passed over this bucket: at 0 a look-up ends here.
 *
 * A key has a preferred slot, where most look-ups find it at once. The others are compared without branches: which of them
 * matches cannot be predicted.
 */

const BUCKET_BITS = 9;
const BUCKET_WORDS = 16;
const SLOTS_PER_BUCKET = 5;
const HIGH = 5;
const VALUE = 10;
const STATE = 15;
const USED_MASK = 31;
const PASSED_ONE = 32;

/** Words of a segment. */
export const SEGMENT_WORDS = BUCKET_WORDS << BUCKET_BITS;
/** Slots of a segment. */
export const SEGMENT_SLOTS = SLOTS_PER_BUCKET << BUCKET_BITS;

const WORD_MASK = SEGMENT_WORDS - 1;
/** The golden ratio in 32 bits: spreads mixed hashes of one segment over its buckets. */
const FIBONACCI = 0x9e3779b1 | 0;

/** Word, within a segment, at which the bucket of a mixed hash begins. */
export function homeOf(mixed: number): number {
	return (Math.imul(mixed, FIBONACCI) >>> (32 - BUCKET_BITS)) * BUCKET_WORDS;
}

/** Slot, 0 to 4, in which a key is looked for first: by bits of the product that do not choose the bucket. */
function preferredOf(mixed: number): number {
	return (
		(((Math.imul(mixed, FIBONACCI) >>> 7) & 0xffff) * SLOTS_PER_BUCKET) >>> 16
	);
}

/** Word of the first value stored under a key, -1 when there is none. `base` is where the segment begins in `words`. */
export function find(
	words: Int32Array,
	base: number,
	mixed: number,
	high: number,
	low: number,
): number {
	const bucket = homeOf(mixed);
	const first = base + bucket + preferredOf(mixed);
	return words[first] === low &&
		words[first + HIGH] === high &&
		words[first + VALUE] !== 0
		? first + VALUE
		: findBeyond(words, base, bucket, high, low);
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
	// Nearly every key has one value.
	const first = find(words, base, mixed, high, low);
	if (first < 0 || words[first] === value) return first;
	for (let skip = 0; ; skip++) {
		const at = findNth(words, base, mixed, high, low, skip);
		if (at < 0 || words[at] === value) return at;
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
	let bucket = homeOf(mixed);
	for (;;) {
		const at = base + bucket;
		for (let slot = at; slot < at + SLOTS_PER_BUCKET; slot++)
			if (holds(words, slot, high, low) && left-- === 0) return slot + VALUE;
		if ((words[at + STATE] as number) < PASSED_ONE) return -1;
		bucket = (bucket + BUCKET_WORDS) & WORD_MASK;
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
	let bucket = homeOf(mixed);
	let at = base + bucket;
	let state = words[at + STATE] as number;
	while ((state & USED_MASK) === USED_MASK) {
		words[at + STATE] = state + PASSED_ONE;
		bucket = (bucket + BUCKET_WORDS) & WORD_MASK;
		at = base + bucket;
		state = words[at + STATE] as number;
	}
	const free = ~state & USED_MASK;
	const preferred = 1 << preferredOf(mixed);
	const taken = (free & preferred) !== 0 ? preferred : free & -free;
	words[at + STATE] = state | taken;
	const slot = at + 31 - Math.clz32(taken);
	words[slot] = low;
	words[slot + HIGH] = high;
	words[slot + VALUE] = value;
}

/** Frees the slot whose value is at `word`. */
export function erase(
	words: Int32Array,
	base: number,
	mixed: number,
	word: number,
): void {
	const bucket = (word - base) & ~(BUCKET_WORDS - 1);
	const state = base + bucket + STATE;
	words[word] = 0;
	words[state] =
		(words[state] as number) & ~(1 << (word - base - bucket - VALUE));
	let passed = homeOf(mixed);
	while (passed !== bucket) {
		words[base + passed + STATE] =
			(words[base + passed + STATE] as number) - PASSED_ONE;
		passed = (passed + BUCKET_WORDS) & WORD_MASK;
	}
}

/** Calls `visit` for every entry. */
export function forEachEntry(
	words: Int32Array,
	base: number,
	visit: (high: number, low: number, value: number) => void,
): void {
	for (let at = base; at < base + SEGMENT_WORDS; at += BUCKET_WORDS) {
		for (let slot = at; slot < at + SLOTS_PER_BUCKET; slot++) {
			const value = words[slot + VALUE] as number;
			if (value !== 0)
				visit(words[slot + HIGH] as number, words[slot] as number, value);
		}
	}
}

/** The slots with this low word, one bit each. Free slots may be among them. */
function withLow(words: Int32Array, at: number, low: number): number {
	// A word of zeros has 32 leading zeros, which is bit 5; any other has fewer.
	return (
		(Math.clz32((words[at] as number) ^ low) >>> 5) |
		((Math.clz32((words[at + 1] as number) ^ low) >>> 5) << 1) |
		((Math.clz32((words[at + 2] as number) ^ low) >>> 5) << 2) |
		((Math.clz32((words[at + 3] as number) ^ low) >>> 5) << 3) |
		((Math.clz32((words[at + 4] as number) ^ low) >>> 5) << 4)
	);
}

/** {@link find} past the preferred slot. Apart, so that the usual case is small enough to become part of its callers. */
function findBeyond(
	words: Int32Array,
	base: number,
	home: number,
	high: number,
	low: number,
): number {
	let bucket = home;
	for (;;) {
		const at = base + bucket;
		if (withLow(words, at, low) !== 0) {
			const found = findInBucket(words, at, high, low);
			if (found >= 0) return found;
		}
		if ((words[at + STATE] as number) < PASSED_ONE) return -1;
		bucket = (bucket + BUCKET_WORDS) & WORD_MASK;
	}
}

function findInBucket(
	words: Int32Array,
	at: number,
	high: number,
	low: number,
): number {
	for (let slot = at; slot < at + SLOTS_PER_BUCKET; slot++)
		if (holds(words, slot, high, low)) return slot + VALUE;
	return -1;
}

function holds(
	words: Int32Array,
	slot: number,
	high: number,
	low: number,
): boolean {
	return (
		words[slot] === low &&
		words[slot + HIGH] === high &&
		words[slot + VALUE] !== 0
	);
}
