/**
 * The shape of a UCX memory key, as far as it keeps UCX from reading past its end: a bit per memory domain of the peer in 8
 * bytes, a byte with the kind of memory, then for each of these domains a byte with the length of its part, and the part.
 * What follows is optional. UCX takes the parts apart without looking where the bytes stop.
 */
import type { Transport } from "./ucx-address.js";

const HEADER_BYTES = 9;

/**
 * UCX's stand-ins for `sysv` and `posix`. Their domains share only memory that UCX has allocated, which NIXL never asks for.
 * Their parts hold text that UCX follows to its end, wherever that is.
 */
const ALLOCATING = new Set([0x538d, 0xd3a7]);

/**
 * What is wrong with a key; `undefined` when nothing is.
 * @param transports what the peer's address says of its memory domains
 */
export function keyFault(
	key: Uint8Array,
	transports: readonly Transport[],
): string | undefined {
	const domains = Buffer.from(
		key.buffer,
		key.byteOffset,
		key.byteLength,
	).readBigUInt64LE();
	let at = HEADER_BYTES;
	for (let domain = 0; domain < 64; domain += 1) {
		if (((domains >> BigInt(domain)) & 1n) === 0n) continue;
		if (
			transports.some((t) => t.domain === domain && ALLOCATING.has(t.checksum))
		)
			return "is of memory that only UCX itself allocates";
		const length = key[at];
		if (length === undefined || at + 1 + length > key.length)
			return "reaches past its end";
		at += 1 + length;
	}
	return undefined;
}
