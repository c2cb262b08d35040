/**
 * One pass over MessagePack bytes before anything is built from them: every announced length must be covered by bytes
 * that are there, nesting is bounded, and there is exactly one value. A decoder handed bytes that pass does work in proportion
 * to their length. Objects are larger than the bytes that describe them, an empty map fifty times: what all of them will
 * take is therefore estimated and bounded as well, or a single large payload could end the process.
 */

/** Deepest nesting of arrays and maps; events of vLLM need about five levels, the rest is for fields that are not known. */
const MAX_NESTING = 64;
/** Most heap a payload may come to, by the estimates below: some 1.6 million block hashes in one batch. */
const MAX_HEAP_BYTES = 256 * 1024 * 1024;
/** Heap of an array or map, of each of its values, of a string, of a view of bytes, and of an integer or float. */
const CONTAINER_HEAP = 64;
const CHILD_HEAP = 16;
const STRING_HEAP = 32;
const VIEW_HEAP = 160;
const NUMBER_HEAP = 16;

/** Why bytes were refused. */
export type StructureFault =
	| "truncated"
	| "trailing_bytes"
	| "too_deep"
	| "too_many_values"
	| "unknown_format";

/** Bytes after the head byte of each format from 0xc0: fixed size, or `-width` of a length that follows. */
const REST = [
	0,
	NaN,
	0,
	0,
	-1,
	-2,
	-4,
	-1,
	-2,
	-4,
	4,
	8,
	1,
	2,
	4,
	8,
	1,
	2,
	4,
	8,
	2,
	3,
	5,
	9,
	17,
	-1,
	-2,
	-4,
	-2,
	-4,
	-2,
	-4,
];
const FIRST_EXTENSION = 0xc7;
const FIRST_NUMBER = 0xca;
const FIRST_FIXED_EXTENSION = 0xd4;
const FIRST_STRING = 0xd9;
const FIRST_CONTAINER = 0xdc;
const FIRST_MAP = 0xde;

/** What is wrong with the structure, `undefined` when nothing is. */
export function structureFault(bytes: Uint8Array): StructureFault | undefined {
	const end = bytes.length;
	/** Values still to come on each level. */
	const pending = new Int32Array(MAX_NESTING);
	let depth = 0;
	let at = 0;
	let heap = 0;
	do {
		if (at >= end) return "truncated";
		const head = bytes[at++] as number;
		let skip = 0;
		let children = 0;
		let own = 0;
		if (head < 0x80 || head >= 0xe0) {
			// A small integer is its own value.
		} else if (head < 0x90) {
			children = (head & 0x0f) * 2;
			own = CONTAINER_HEAP;
		} else if (head < 0xa0) {
			children = head & 0x0f;
			own = CONTAINER_HEAP;
		} else if (head < 0xc0) {
			skip = head & 0x1f;
			own = STRING_HEAP + 2 * skip;
		} else {
			const rest = REST[head - 0xc0] as number;
			if (rest >= 0) {
				skip = rest;
				if (head >= FIRST_FIXED_EXTENSION) own = VIEW_HEAP;
				else if (head >= FIRST_NUMBER) own = NUMBER_HEAP;
			} else {
				// The one byte that begins nothing.
				if (!(rest < 0)) return "unknown_format";
				if (end - at < -rest) return "truncated";
				let length = 0;
				for (let i = 0; i < -rest; i++)
					length = length * 256 + (bytes[at++] as number);
				if (head < FIRST_STRING) {
					// An extension has a byte for its type.
					skip = head < FIRST_EXTENSION ? length : length + 1;
					own = VIEW_HEAP;
				} else if (head < FIRST_CONTAINER) {
					skip = length;
					own = STRING_HEAP + 2 * length;
				} else {
					children = head < FIRST_MAP ? length : 2 * length;
					own = CONTAINER_HEAP;
				}
			}
		}
		// An entry takes a byte at least.
		if (end - at < skip + children) return "truncated";
		heap += own + CHILD_HEAP * children;
		if (heap > MAX_HEAP_BYTES) return "too_many_values";
		at += skip;
		if (children > 0) {
			if (depth === MAX_NESTING) return "too_deep";
			pending[depth++] = children;
			continue;
		}
		while (depth > 0) {
			const left = (pending[depth - 1] as number) - 1;
			pending[depth - 1] = left;
			if (left > 0) break;
			depth--;
		}
	} while (depth > 0);
	return at === end ? undefined : "trailing_bytes";
}

/** The beginning of one value. */
export interface Head {
	readonly kind: "array" | "map" | "scalar" | "extension";
	/** Values that follow and belong to it: twice the number of entries for a map. */
	readonly children: number;
	/** Where the first of them begins, or where a value without any ends. */
	readonly end: number;
}

/** The head of the value at `at`, in bytes without a {@link structureFault}. */
export function headAt(bytes: Uint8Array, at: number): Head {
	const head = bytes[at] as number;
	const start = at + 1;
	if (head < 0x80 || head >= 0xe0)
		return { kind: "scalar", children: 0, end: start };
	if (head < 0x90)
		return { kind: "map", children: 2 * (head & 0x0f), end: start };
	if (head < 0xa0) return { kind: "array", children: head & 0x0f, end: start };
	if (head < 0xc0)
		return { kind: "scalar", children: 0, end: start + (head & 0x1f) };
	const rest = REST[head - 0xc0] as number;
	if (rest >= 0) {
		const fixed = head >= FIRST_FIXED_EXTENSION && head < FIRST_STRING;
		const kind = fixed ? "extension" : "scalar";
		return { kind, children: 0, end: start + rest };
	}
	let length = 0;
	const end = start - rest;
	for (let i = start; i < end; i++)
		length = length * 256 + (bytes[i] as number);
	if (head >= FIRST_MAP) return { kind: "map", children: 2 * length, end };
	if (head >= FIRST_CONTAINER) return { kind: "array", children: length, end };
	if (head >= FIRST_EXTENSION && head < FIRST_NUMBER)
		return { kind: "extension", children: 0, end: end + length + 1 };
	return { kind: "scalar", children: 0, end: end + length };
}
