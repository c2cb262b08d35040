/**
 * One pass over MessagePack bytes before anything is built from them: every announced length must be covered by bytes
 * that are there, nesting is bounded, and there is exactly one value. A decoder handed bytes that pass does work and
 * allocates memory in proportion to their length.
 */

/** Deepest nesting of arrays and maps; events of vLLM need about five levels. */
const MAX_NESTING = 16;

/** Why bytes were refused. */
export type StructureFault =
	| "truncated"
	| "trailing_bytes"
	| "too_deep"
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
	NaN,
	NaN,
	NaN,
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
	NaN,
	NaN,
	NaN,
	NaN,
	NaN,
	-1,
	-2,
	-4,
	-2,
	-4,
	-2,
	-4,
];
const FIRST_CONTAINER = 0xdc;
const FIRST_MAP = 0xde;

/** What is wrong with the structure, `undefined` when nothing is. */
export function structureFault(bytes: Uint8Array): StructureFault | undefined {
	const end = bytes.length;
	/** Values still to come on each level. */
	const pending = new Int32Array(MAX_NESTING);
	let depth = 0;
	let at = 0;
	do {
		if (at >= end) return "truncated";
		const head = bytes[at++] as number;
		let skip = 0;
		let children = 0;
		if (head < 0x80 || head >= 0xe0) {
			// A small integer is its own value.
		} else if (head < 0x90) children = (head & 0x0f) * 2;
		else if (head < 0xa0) children = head & 0x0f;
		else if (head < 0xc0) skip = head & 0x1f;
		else {
			const rest = REST[head - 0xc0] as number;
			if (rest >= 0) skip = rest;
			else {
				// Extension types and the reserved byte have no place in events.
				if (!(rest < 0)) return "unknown_format";
				if (end - at < -rest) return "truncated";
				let length = 0;
				for (let i = 0; i < -rest; i++)
					length = length * 256 + (bytes[at++] as number);
				if (head < FIRST_CONTAINER) skip = length;
				else children = head < FIRST_MAP ? length : 2 * length;
			}
		}
		// An entry takes a byte at least.
		if (end - at < skip + children) return "truncated";
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
