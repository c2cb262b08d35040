/** Checked reading of single fields. Every reader takes the value and the path it stands at, for the error. */
import type { BlockKey, Incarnation, OpHandle } from "../ports/names.js";
import {
	INT64_MAX,
	INT64_MIN,
	MAX_BLOCK_KEY_BYTES,
	UINT64_MAX,
} from "../ports/names.js";
import { FieldViolation } from "./errors.js";
import { MAX_STRING_BYTES } from "./limits.js";

const INCARNATION = /^[0-9a-f]{32}$/;

/** A string of at most {@link MAX_STRING_BYTES} bytes that may be empty. */
export function readText(value: unknown, path: string): string {
	if (typeof value !== "string" || !fitsBytes(value))
		throw new FieldViolation(
			path,
			value,
			`a string of at most ${MAX_STRING_BYTES} bytes`,
		);
	return value;
}

/** A non-empty string of at most {@link MAX_STRING_BYTES} bytes. */
export function readName(value: unknown, path: string): string {
	if (typeof value !== "string" || value === "" || !fitsBytes(value))
		throw new FieldViolation(
			path,
			value,
			`a non-empty string of at most ${MAX_STRING_BYTES} bytes`,
		);
	return value;
}

/** Like {@link readName}; absent or nil gives `undefined`. */
export function readOptionalName(
	value: unknown,
	path: string,
): string | undefined {
	return value === undefined || value === null
		? undefined
		: readName(value, path);
}

export function readBoolean(value: unknown, path: string): boolean {
	if (typeof value !== "boolean")
		throw new FieldViolation(path, value, "a boolean");
	return value;
}

/** A boolean; absent gives `whenAbsent`. */
export function readOptionalBoolean(
	value: unknown,
	path: string,
	whenAbsent: boolean,
): boolean {
	return value === undefined ? whenAbsent : readBoolean(value, path);
}

/** An integer as bigint, whichever way it was decoded; `undefined` for anything else. */
export function integerOf(value: unknown): bigint | undefined {
	if (typeof value === "bigint") return value;
	return typeof value === "number" && Number.isSafeInteger(value)
		? BigInt(value)
		: undefined;
}

export function readUint64(value: unknown, path: string): bigint {
	const integer = integerOf(value);
	if (integer === undefined || integer < 0n || integer > UINT64_MAX)
		throw new FieldViolation(path, value, "an unsigned 64-bit integer");
	return integer;
}

export function readOpHandle(value: unknown, path = "op_handle"): OpHandle {
	const handle = opHandleOf(value);
	if (handle === undefined)
		throw new FieldViolation(path, value, "a signed 64-bit integer");
	return handle;
}

/** The handle a decoded value stands for, or `undefined`. */
export function opHandleOf(value: unknown): OpHandle | undefined {
	const integer = integerOf(value);
	return integer !== undefined && integer >= INT64_MIN && integer <= INT64_MAX
		? (integer as OpHandle)
		: undefined;
}

/** An integer from `minimum` to `maximum` (both safe) as number. */
export function readInteger(
	value: unknown,
	path: string,
	minimum: number,
	maximum: number = Number.MAX_SAFE_INTEGER,
): number {
	const number = typeof value === "bigint" ? Number(value) : value;
	if (
		typeof number !== "number" ||
		!Number.isSafeInteger(number) ||
		number < minimum ||
		number > maximum
	)
		throw new FieldViolation(
			path,
			value,
			`an integer from ${minimum} to ${maximum}`,
		);
	return number;
}

/** A finite number of milliseconds above zero. */
export function readTimeoutMs(
	value: unknown,
	path = "remaining_timeout_ms",
): number {
	const number = typeof value === "bigint" ? Number(value) : value;
	if (typeof number !== "number" || !Number.isFinite(number) || number <= 0)
		throw new FieldViolation(path, value, "a finite number above 0");
	return number;
}

export function readIncarnation(value: unknown, path: string): Incarnation {
	if (typeof value !== "string" || !INCARNATION.test(value))
		throw new FieldViolation(path, value, "32 lowercase hexadecimal digits");
	return value as Incarnation;
}

/** The incarnation in a field, or `undefined` for anything that is none. */
export function incarnationOf(value: unknown): Incarnation | undefined {
	return typeof value === "string" && INCARNATION.test(value)
		? (value as Incarnation)
		: undefined;
}

/** Like {@link readIncarnation}; absent or nil gives `undefined`. */
export function readOptionalIncarnation(
	value: unknown,
	path: string,
): Incarnation | undefined {
	return value === undefined || value === null
		? undefined
		: readIncarnation(value, path);
}

/** A block key, as a view of the message. */
export function readKey(value: unknown, path: string): BlockKey {
	if (
		!(value instanceof Uint8Array) ||
		value.byteLength === 0 ||
		value.byteLength > MAX_BLOCK_KEY_BYTES
	)
		throw new FieldViolation(
			path,
			value,
			`1 to ${MAX_BLOCK_KEY_BYTES} bytes of binary`,
		);
	return value as BlockKey;
}

/** An array of `minimum` to `maximum` entries, which are not checked. */
export function readArray(
	value: unknown,
	path: string,
	minimum: number,
	maximum: number,
): readonly unknown[] {
	if (!Array.isArray(value) || value.length < minimum || value.length > maximum)
		throw new FieldViolation(
			path,
			value,
			`an array of ${minimum} to ${maximum} entries`,
		);
	return value;
}

/** UTF-8 takes at least one byte per UTF-16 unit and at most three, so most strings need no counting. */
function fitsBytes(text: string): boolean {
	if (text.length > MAX_STRING_BYTES) return false;
	return (
		text.length * 3 <= MAX_STRING_BYTES ||
		Buffer.byteLength(text) <= MAX_STRING_BYTES
	);
}
