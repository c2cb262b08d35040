/**
 * MessagePack in and out, with integers kept to all 64 bits and every allocation bounded by the bytes received.
 *
 * `@msgpack/msgpack` does the work: no dependencies, no native part, no code generation, and no built-in extension
 * types that construct objects by name (which rules out the faster msgpackr for bytes from strangers). It is handed
 * only bytes that passed {@link structureFault}.
 */
import { Decoder, Encoder } from "@msgpack/msgpack";
import { MAX_CONTROL_MESSAGE_BYTES } from "../ports/control-channel.js";
import { reasonOf } from "../ports/errors.js";
import { FieldViolation } from "./errors.js";
import { fieldNames } from "./field-names.js";
import { MAX_NESTING } from "./limits.js";
import { structureFault } from "./structure.js";

/** What is encoded: plain values, `undefined` nowhere. */
export type WireValue =
	| null
	| boolean
	| number
	| bigint
	| string
	| Uint8Array
	| readonly WireValue[]
	| { readonly [field: string]: WireValue };

/** One MessagePack map as built and read here. */
export type WireMap = { [field: string]: WireValue };

const encoder = new Encoder({ useBigInt64: true, maxDepth: MAX_NESTING });
const decoder = new Decoder({
	useBigInt64: true,
	keyDecoder: fieldNames,
});

/** Encodes a map. Integers take the shortest form if bigints went through {@link shortest}. */
export function pack(value: WireMap): Uint8Array {
	return encoder.encode(value);
}

/**
 * Decodes one map. Integers come as number, or as bigint when they were sent in eight bytes, whatever their value.
 * Binary fields are views of `bytes`, plain ones also where those are a Buffer, whose `slice` does not copy.
 * @throws FieldViolation for anything but a well-formed map of at most 1 MiB.
 */
export function unpack(bytes: Uint8Array): Record<string, unknown> {
	if (bytes.byteLength > MAX_CONTROL_MESSAGE_BYTES) {
		throw new FieldViolation(
			"length",
			bytes.byteLength,
			`at most ${MAX_CONTROL_MESSAGE_BYTES} bytes`,
		);
	}
	const fault = structureFault(bytes);
	if (fault !== undefined)
		throw new FieldViolation(
			"bytes",
			bytes,
			`well-formed MessagePack (${fault})`,
		);
	let value: unknown;
	try {
		value = decoder.decode(plain(bytes));
	} catch (error) {
		// Left to the decoder: the map key "__proto__", which it refuses.
		throw new FieldViolation("bytes", bytes, `decodable (${reasonOf(error)})`);
	}
	if (!isWireMap(value)) throw new FieldViolation("message", value, "a map");
	return value;
}

function plain(bytes: Uint8Array): Uint8Array {
	return Buffer.isBuffer(bytes)
		? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
		: bytes;
}

/**
 * An integer in the form that is encoded as an integer of the fewest bytes: number up to 32 bits, bigint beyond. (The
 * encoder writes a number beyond 32 bits as a double, which other peers do not take for an integer.)
 */
export function shortest(value: number | bigint): number | bigint {
	const small = value >= -0x8000_0000 && value <= 0xffff_ffff;
	if (typeof value === "number") return small ? value : BigInt(value);
	return small ? Number(value) : value;
}

/** Whether a decoded value is a map. */
export function isWireMap(value: unknown): value is Record<string, unknown> {
	return (
		typeof value === "object" &&
		value !== null &&
		!Array.isArray(value) &&
		!(value instanceof Uint8Array)
	);
}
