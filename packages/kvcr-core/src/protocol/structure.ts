/**
 * One pass over MessagePack bytes before anything is built from them.
 *
 * It settles what a decoder cannot: that every length claimed is covered by bytes that are really there (so a ten-byte
 * message that announces four thousand million entries allocates nothing), that nesting is bounded, that map keys are
 * strings and strings are UTF-8, that there is exactly one value and no extension type. What passes can be handed to
 * any decoder: its work and memory are proportional to the length of the message.
 */
import { isUtf8 } from "node:buffer";
import { MAX_NESTING } from "./limits.js";

/** Why the bytes were refused; bounded, so that it can be counted by. */
export type StructureFault =
	| "truncated"
	| "trailing_bytes"
	| "too_deep"
	| "extension_type"
	| "reserved_byte"
	| "map_key_type"
	| "invalid_utf8";

/** Values still to come, per open array or map. Decoding is synchronous and not re-entrant, so one set serves all. */
const pending = new Int32Array(MAX_NESTING);
/** For an open map: true while the next value is a key. */
const keyNext = new Uint8Array(MAX_NESTING);
const isMap = new Uint8Array(MAX_NESTING);

/** Checks the structure of one MessagePack value. Returns what is wrong, or `undefined` when nothing is. */
export function structureFault(bytes: Uint8Array): StructureFault | undefined {
	const end = bytes.byteLength;
	let at = 0;
	let depth = 0;
	for (;;) {
		if (at >= end) return "truncated";
		const head = bytes[at++] as number;
		let mustBeString = false;
		if (depth > 0 && isMap[depth - 1] === 1) {
			mustBeString = keyNext[depth - 1] === 1;
			keyNext[depth - 1] = mustBeString ? 0 : 1;
		}
		let textBytes = -1;
		let skip = 0;
		let children = -1;
		let opensMap = false;
		if (head < 0x80 || head >= 0xe0) {
			// A small integer: nothing follows.
		} else if (head < 0x90) {
			children = (head & 0x0f) * 2;
			opensMap = true;
		} else if (head < 0xa0) {
			children = head & 0x0f;
		} else if (head < 0xc0) {
			textBytes = head & 0x1f;
		} else {
			switch (head) {
				case 0xc0: // nil
				case 0xc2: // false
				case 0xc3: // true
					break;
				case 0xcc: // uint8
				case 0xd0: // int8
					skip = 1;
					break;
				case 0xcd: // uint16
				case 0xd1: // int16
					skip = 2;
					break;
				case 0xca: // float32
				case 0xce: // uint32
				case 0xd2: // int32
					skip = 4;
					break;
				case 0xcb: // float64
				case 0xcf: // uint64
				case 0xd3: // int64
					skip = 8;
					break;
				case 0xc4: // bin8
				case 0xc5: // bin16
				case 0xc6: {
					// bin32
					const width = 1 << (head - 0xc4);
					if (end - at < width) return "truncated";
					skip = readLength(bytes, at, width);
					at += width;
					break;
				}
				case 0xd9: // str8
				case 0xda: // str16
				case 0xdb: {
					// str32
					const width = 1 << (head - 0xd9);
					if (end - at < width) return "truncated";
					textBytes = readLength(bytes, at, width);
					at += width;
					break;
				}
				case 0xdc: // array16
				case 0xdd: // array32
				case 0xde: // map16
				case 0xdf: {
					// map32
					const width = (head & 1) === 0 ? 2 : 4;
					if (end - at < width) return "truncated";
					opensMap = head >= 0xde;
					children = readLength(bytes, at, width) * (opensMap ? 2 : 1);
					at += width;
					break;
				}
				case 0xc1:
					return "reserved_byte";
				default:
					return "extension_type";
			}
		}
		if (mustBeString && textBytes < 0) return "map_key_type";
		if (textBytes >= 0) {
			if (end - at < textBytes) return "truncated";
			if (!isText(bytes, at, textBytes)) return "invalid_utf8";
			at += textBytes;
		} else if (children < 0) {
			if (end - at < skip) return "truncated";
			at += skip;
		} else {
			// Each entry takes a byte at least.
			if (end - at < children) return "truncated";
			if (depth === MAX_NESTING) return "too_deep";
			if (children > 0) {
				pending[depth] = children;
				isMap[depth] = opensMap ? 1 : 0;
				keyNext[depth] = 1;
				depth++;
				continue;
			}
		}
		while (depth > 0) {
			const left = (pending[depth - 1] as number) - 1;
			pending[depth - 1] = left;
			if (left > 0) break;
			depth--;
		}
		if (depth === 0) return at === end ? undefined : "trailing_bytes";
	}
}

function readLength(bytes: Uint8Array, at: number, width: number): number {
	let length = 0;
	for (let i = 0; i < width; i++)
		length = length * 256 + (bytes[at + i] as number);
	return length;
}

function isText(bytes: Uint8Array, at: number, length: number): boolean {
	const end = at + length;
	for (let i = at; i < end; i++) {
		if ((bytes[i] as number) >= 0x80) return isUtf8(bytes.subarray(at, end));
	}
	return true;
}
