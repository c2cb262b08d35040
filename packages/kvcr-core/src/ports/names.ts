/**
 * Branded names of the protocol. A brand costs nothing at run time and keeps a router hash from being passed where an
 * operation handle belongs.
 */
import { InvalidArgumentError } from "./errors.js";

declare const brand: unique symbol;
/** A `T` that only the functions of this file make. */
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** Full identity of a block: opaque, non-empty bytes. Core never shortens or reinterprets them. */
export type BlockKey = Brand<Uint8Array, "BlockKey">;

/** Unsigned 64-bit integer by which a router names a block. Lossy: two full keys can share one. */
export type RouterHash = Brand<bigint, "RouterHash">;

/** Signed 64-bit handle of an operation, unique within one running instance (wire field `op_handle`). */
export type OpHandle = Brand<bigint, "OpHandle">;

/** Handle of one claim on resident blocks, as returned by `fetch` and a `noEvict` deposit. */
export type ReleaseHandle = Brand<bigint, "ReleaseHandle">;

/** Name under which advice of a hint is stored: a request ID, or a private ID that no request can have. */
export type AdviceId = Brand<string, "AdviceId">;

/** Random identity of one running instance: 32 lowercase hexadecimal digits (wire field `sender_incarnation`). */
export type Incarnation = Brand<string, "Incarnation">;

/** Largest block key accepted, in bytes. */
export const MAX_BLOCK_KEY_BYTES = 1024;

/** Largest unsigned 64-bit integer. */
export const UINT64_MAX = 0xffff_ffff_ffff_ffffn;

/** Smallest and largest signed 64-bit integer. */
export const INT64_MIN = -0x8000_0000_0000_0000n;
/** Largest signed 64-bit integer. */
export const INT64_MAX = 0x7fff_ffff_ffff_ffffn;

/**
 * Checks and brands the bytes of a block key (1 to {@link MAX_BLOCK_KEY_BYTES} bytes). The bytes are not copied: do not
 * change them afterwards.
 * @throws InvalidArgumentError when the value is not a `Uint8Array` of an allowed length.
 */
export function blockKey(
	bytes: Uint8Array,
	operation = "blockKey",
	argument = "bytes",
): BlockKey {
	if (
		!(bytes instanceof Uint8Array) ||
		bytes.byteLength === 0 ||
		bytes.byteLength > MAX_BLOCK_KEY_BYTES
	) {
		throw new InvalidArgumentError(
			operation,
			argument,
			bytes,
			`a Uint8Array of 1 to ${MAX_BLOCK_KEY_BYTES} bytes`,
		);
	}
	return bytes as BlockKey;
}

/**
 * Checks and brands a router hash. Accepts a bigint of 0 to 2^64-1, or a number that is a safe non-negative integer.
 * @throws InvalidArgumentError for anything else; an unsafe number is refused, never rounded.
 */
export function routerHash(
	value: bigint | number,
	operation = "routerHash",
	argument = "value",
): RouterHash {
	if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0)
		return BigInt(value) as RouterHash;
	if (typeof value === "bigint" && value >= 0n && value <= UINT64_MAX)
		return value as RouterHash;
	throw new InvalidArgumentError(
		operation,
		argument,
		value,
		"an unsigned 64-bit integer (bigint, or a safe number)",
	);
}

/** What `Buffer.toString("latin1")` calls. It takes any bytes, which saves a Buffer per key on the hottest path there is. */
const { latin1Slice } = Buffer.prototype as unknown as {
	latin1Slice(this: Uint8Array, start: number, end: number): string;
};

/**
 * The bytes of a key as a string with one character per byte, for use as a `Map` key. Reversible with
 * {@link keyFromText}.
 */
export function keyText(key: Uint8Array): string {
	return latin1Slice.call(key, 0, key.byteLength);
}

/** The inverse of {@link keyText}. */
export function keyFromText(text: string): BlockKey {
	return new Uint8Array(Buffer.from(text, "latin1")) as BlockKey;
}
