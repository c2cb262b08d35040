/** Keys for the reverse map benchmark: made from their number, so that a hundred million need no memory. */

/** Bytes of a key: a 32-byte block hash and the group index. */
export const KEY_BYTES = 36;

const bytes = new Uint8Array(KEY_BYTES);
const view = new DataView(bytes.buffer);

/** The `index`-th key, in a buffer that the next call overwrites. Every word depends on the index; no two keys are equal. */
export function keyAt(index: number): Uint8Array {
	let a = Math.imul(index + 1, 0x9e3779b1) | 0;
	a = Math.imul(a ^ (a >>> 15), 0x2c1b3c6d);
	a ^= a >>> 12;
	let b = Math.imul(index ^ 0x5bd1e995, 0x85ebca6b);
	b = Math.imul(b ^ (b >>> 13), 0x297a2d39);
	b ^= b >>> 16;
	for (let at = 0; at < 24; at += 8) {
		view.setInt32(at, a + at);
		view.setInt32(at + 4, b ^ at);
	}
	view.setInt32(24, a);
	view.setInt32(28, b);
	return bytes;
}

/** Router hash of the key that `keyAt` made last. */
export function lastHash(): bigint {
	return view.getBigUint64(24);
}

/** A hash no key has: the low word of a key's hash follows from the high one, here it does not. */
export function missingHash(): bigint {
	return lastHash() ^ 0x10000001n;
}

/** Visits 0 to `count - 1` once each in a scattered order. */
export function scattered(count: number): (i: number) => number {
	let step = Math.floor(count * 0.618033988749895) | 1;
	while (gcd(step, count) !== 1) step += 2;
	// Both factors are below 2^26, so that the product stays exact.
	return (i) => (i * step) % count;
}

function gcd(a: number, b: number): number {
	return b === 0 ? a : gcd(b, a % b);
}
