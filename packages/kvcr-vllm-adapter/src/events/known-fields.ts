/**
 * What of an event batch is of interest, in MessagePack again. For batches that the decoder refuses because of a value in a
 * field nobody asked for: a map keyed by nothing a JavaScript object has, or a time stamp of odd length. Fields that are
 * not known are left out; values of known ones that cannot be any become `true`, which no field takes.
 */
import { headAt } from "./structure.js";

const NAMES = new Set([
	"type",
	"block_hashes",
	"group_idx",
	"medium",
	"locality",
	"ownership",
]);
const LONGEST_NAME = 12;
/** Positions in the array encoding of an event that are of interest, and those of a batch. */
const EVENT_LENGTH = 14;
const BATCH_LENGTH = 3;
const HASHES_POSITION = 1;
const UNUSABLE = new Uint8Array([0xc3]);

/** @param payload bytes without a structure fault */
export function knownFieldsOnly(payload: Uint8Array): Uint8Array {
	const parts: Uint8Array[] = [];
	const batch = headAt(payload, 0);
	if (batch.kind !== "array") return UNUSABLE;
	const length = Math.min(batch.children, BATCH_LENGTH);
	parts.push(arrayHead(length));
	let at = batch.end;
	for (let i = 0; i < length; i++)
		at =
			i === 1
				? copyArray(payload, at, parts, copyEvent)
				: copyScalar(payload, at, parts);
	return Buffer.concat(parts);
}

type Copy = (bytes: Uint8Array, at: number, parts: Uint8Array[]) => number;

/** Each `copy…` gives the position after the value. */
function copyScalar(
	bytes: Uint8Array,
	at: number,
	parts: Uint8Array[],
): number {
	const head = headAt(bytes, at);
	const end = skip(bytes, at);
	parts.push(head.kind === "scalar" ? bytes.subarray(at, end) : UNUSABLE);
	return end;
}

function copyArray(
	bytes: Uint8Array,
	at: number,
	parts: Uint8Array[],
	copy: Copy,
): number {
	const head = headAt(bytes, at);
	if (head.kind !== "array") return copyScalar(bytes, at, parts);
	parts.push(arrayHead(head.children));
	let next = head.end;
	for (let i = 0; i < head.children; i++) next = copy(bytes, next, parts);
	return next;
}

function copyEvent(bytes: Uint8Array, at: number, parts: Uint8Array[]): number {
	const head = headAt(bytes, at);
	let next = head.end;
	if (head.kind === "array") {
		const length = Math.min(head.children, EVENT_LENGTH);
		parts.push(arrayHead(length));
		for (let i = 0; i < head.children; i++) {
			if (i >= length) next = skip(bytes, next);
			else if (i === HASHES_POSITION)
				next = copyArray(bytes, next, parts, copyScalar);
			else next = copyScalar(bytes, next, parts);
		}
		return next;
	}
	if (head.kind !== "map") return copyScalar(bytes, at, parts);
	/** The last value of each known name, as a decoder has it. */
	const found = new Map<string, { key: number; value: number }>();
	for (let i = 0; i < head.children; i += 2) {
		const key = next;
		const value = skip(bytes, key);
		const name = nameAt(bytes, key, value);
		if (name !== undefined) found.set(name, { key, value });
		next = skip(bytes, value);
	}
	parts.push(new Uint8Array([0x80 | found.size]));
	for (const [name, { key, value }] of found) {
		parts.push(bytes.subarray(key, value));
		if (name === "block_hashes") copyArray(bytes, value, parts, copyScalar);
		else copyScalar(bytes, value, parts);
	}
	return next;
}

/** The string from `at` to `end` if it is a known name. */
function nameAt(
	bytes: Uint8Array,
	at: number,
	end: number,
): string | undefined {
	const first = bytes[at] as number;
	const isString = (first >= 0xa0 && first < 0xc0) || first === 0xd9;
	const from = first === 0xd9 ? at + 2 : at + 1;
	if (!isString || end - from > LONGEST_NAME) return undefined;
	const name = String.fromCharCode(...bytes.subarray(from, end));
	return NAMES.has(name) ? name : undefined;
}

function skip(bytes: Uint8Array, at: number): number {
	let next = at;
	for (let left = 1; left > 0; left--) {
		const head = headAt(bytes, next);
		next = head.end;
		left += head.children;
	}
	return next;
}

function arrayHead(length: number): Uint8Array {
	const head = Buffer.alloc(5);
	head[0] = 0xdd;
	head.writeUInt32BE(length, 1);
	return head;
}
