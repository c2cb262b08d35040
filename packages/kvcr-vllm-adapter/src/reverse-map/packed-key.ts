/**
 * The words of a key: a vLLM offload key is block hash ‖ group index (4 bytes, big-endian), and its router hash is the
 * last 8 bytes of the block hash. Packed from the end, so that hash and group are whole words whatever the length:
 * `[router hash high, router hash low, group, rest of the block hash…]`, all big-endian, the last word padded with zeros.
 */
import { InvalidArgumentError, MAX_BLOCK_KEY_BYTES } from "kvcr-core";

/** An enum for the reason given in segment.ts. */
enum Bytes {
	Group = 4,
	MinHash = 8,
	MinKey = MinHash + Group,
}

/** Bytes of the group index at the end of a key. */
export const GROUP_BYTES: number = Bytes.Group;
/** Shortest block hash that contains a router hash. */
export const MIN_HASH_BYTES: number = Bytes.MinHash;
/** Shortest key. */
export const MIN_KEY_BYTES: number = Bytes.MinKey;
/** Longest block hash whose key core accepts. */
export const MAX_HASH_BYTES = MAX_BLOCK_KEY_BYTES - GROUP_BYTES;

/** Words of a packed key of `bytes` bytes. */
export function packedWords(bytes: number): number {
	return (bytes + 3) >>> 2;
}

/** @throws InvalidArgumentError for anything but 12 to 1,024 bytes. */
export function checkKey(
	key: unknown,
	operation: string,
	argument: string,
): asserts key is Uint8Array {
	if (
		!(key instanceof Uint8Array) ||
		key.length < Bytes.MinKey ||
		key.length > MAX_BLOCK_KEY_BYTES
	)
		throw new InvalidArgumentError(
			operation,
			argument,
			key,
			`a key of ${MIN_KEY_BYTES} to ${MAX_BLOCK_KEY_BYTES} bytes (block hash and group index)`,
		);
}

/** Packs the block hash at `source[offset, offset + hashBytes)` with a group index into `words`, from word `to` on. */
export function packHash(
	source: Uint8Array,
	offset: number,
	hashBytes: number,
	group: number,
	words: Int32Array,
	to: number,
): void {
	const tail = offset + hashBytes - Bytes.MinHash;
	words[to] = wordAt(source, tail);
	words[to + 1] = wordAt(source, tail + 4);
	words[to + 2] = group;
	let at = offset;
	let word = to + 3;
	// Two words a turn: the 24 and 8 bytes of vLLM's hashes come out even.
	for (; at + 8 <= tail; at += 8) {
		words[word++] = wordAt(source, at);
		words[word++] = wordAt(source, at + 4);
	}
	if (at + 4 <= tail) {
		words[word++] = wordAt(source, at);
		at += 4;
	}
	if (at < tail) {
		let last = 0;
		for (let shift = 24; at < tail; at++, shift -= 8)
			last |= (source[at] as number) << shift;
		words[word] = last;
	}
}

/** The bytes of a packed key of `bytes` bytes. */
export function unpackKey(
	words: Int32Array,
	from: number,
	bytes: number,
): Uint8Array {
	// Both ends are read before the allocation, so that it and the waits for memory overlap.
	const high = words[from] as number;
	const low = words[from + 1] as number;
	const group = words[from + 2] as number;
	const last = words[from + ((bytes - 1) >>> 2)] as number;
	const key = new Uint8Array(bytes);
	const tail = bytes - Bytes.MinKey;
	putWord(key, tail, high);
	putWord(key, tail + 4, low);
	putWord(key, tail + 8, group);
	let at = 0;
	let word = from + 3;
	for (; at + 4 <= tail; at += 4) putWord(key, at, words[word++] as number);
	for (let shift = 24; at < tail; at++, shift -= 8) key[at] = last >>> shift;
	return key;
}

/** Four bytes as a big-endian word. */
export function wordAt(source: Uint8Array, at: number): number {
	return (
		((source[at] as number) << 24) |
		((source[at + 1] as number) << 16) |
		((source[at + 2] as number) << 8) |
		(source[at + 3] as number)
	);
}

function putWord(target: Uint8Array, at: number, word: number): void {
	target[at] = word >>> 24;
	target[at + 1] = word >>> 16;
	target[at + 2] = word >>> 8;
	target[at + 3] = word;
}
