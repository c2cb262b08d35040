/**
 * `write_done`, source → target, as a notification of the transfer agent: the end of one write. On success it is attached
 * to the write itself and so cannot arrive before the bytes.
 */
import type { OpHandle } from "../ports/names.js";
import { pack, shortest, unpack, type WireMap } from "./codec.js";
import { FieldViolation } from "./errors.js";
import { opHandleOf } from "./fields.js";
import { MAX_KEYS_PER_WRITE } from "./limits.js";

/** What starts every notification of this protocol. */
const PREFIX = new Uint8Array([0x4b, 0x56, 0x43, 0x52, 0x3a]); // "KVCR:"

/** The end of a write as the target sees it. */
export interface WriteDone {
	readonly opHandle: OpHandle;
	/** True only for an explicit success with usable `completedIndices`. */
	readonly success: boolean;
	/**
	 * Indices into the keys of the `start_write` whose bytes are here, ascending as sent, all different; empty without
	 * success. The receiver checks them against the number of keys it sent.
	 */
	readonly completedIndices: readonly number[];
	/** False: cancelled while the write may still be running, so the memory is not safe yet. */
	readonly terminal: boolean;
}

/** What a source reports; `terminal` is true by default. */
export interface WriteDoneFields {
	readonly opHandle: OpHandle;
	readonly success: boolean;
	/** Sent on success only. */
	readonly completedIndices?: readonly number[];
	readonly terminal?: boolean;
}

/** Encodes a `write_done` notification. */
export function encodeWriteDone(fields: WriteDoneFields): Uint8Array {
	const map: WireMap = {
		type: "write_done",
		op_handle: shortest(fields.opHandle),
		success: fields.success,
	};
	if (fields.success) map.completed_indices = fields.completedIndices ?? [];
	if (fields.terminal === false) map.terminal = false;
	const body = pack(map);
	const bytes = new Uint8Array(PREFIX.byteLength + body.byteLength);
	bytes.set(PREFIX);
	bytes.set(body, PREFIX.byteLength);
	return bytes;
}

/**
 * Decodes a notification. `undefined` for bytes that are not a `write_done` with a readable handle. One that claims
 * success without usable indices counts as a failure: only explicit success is success. Never throws.
 */
export function decodeNotification(bytes: Uint8Array): WriteDone | undefined {
	if (!PREFIX.every((byte, i) => bytes[i] === byte)) return undefined;
	let fields: Record<string, unknown>;
	try {
		fields = unpack(bytes.subarray(PREFIX.byteLength));
	} catch (error) {
		if (error instanceof FieldViolation) return undefined;
		throw error;
	}
	const opHandle = opHandleOf(fields.op_handle);
	if (fields.type !== "write_done" || opHandle === undefined) return undefined;
	const indices =
		fields.success === true ? indicesOf(fields.completed_indices) : undefined;
	return {
		opHandle,
		success: indices !== undefined,
		completedIndices: indices ?? [],
		terminal: fields.terminal === undefined || fields.terminal === true,
	};
}

function indicesOf(value: unknown): readonly number[] | undefined {
	if (!Array.isArray(value) || value.length > MAX_KEYS_PER_WRITE)
		return undefined;
	const seen = new Set<number>();
	for (const entry of value) {
		const index = typeof entry === "bigint" ? Number(entry) : entry;
		if (typeof index !== "number" || !Number.isSafeInteger(index) || index < 0)
			return undefined;
		seen.add(index);
	}
	return seen.size === value.length ? [...seen] : undefined;
}
