/**
 * Seeded mixing. Router hashes come from peers and routers, so an attacker may choose them; the seed keeps them from
 * choosing which ones share a place in a table.
 */
import { randomFillSync } from "node:crypto";

/** Secret words: four for the 64-bit mix of a table, two for the hash over whole keys, two to spread further seeds from. */
export type MixSeed = Int32Array;

/** Words in a {@link MixSeed}. */
export const MIX_SEED_WORDS = 8;

/**
 * A seed for one table: random, or spread from a number so that a test can repeat a run.
 * The two multipliers of the mix are made odd, without which they would lose bits.
 */
export function mixSeed(from?: number): MixSeed {
	const words = new Int32Array(MIX_SEED_WORDS);
	if (from === undefined) randomFillSync(words);
	else {
		let state = from | 0;
		for (let i = 0; i < MIX_SEED_WORDS; i++) {
			state = (state + 0x6d2b79f5) | 0;
			let word = Math.imul(state ^ (state >>> 15), state | 1);
			word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
			words[i] = word ^ (word >>> 14);
		}
	}
	words[1] = (words[1] as number) | 1;
	words[3] = (words[3] as number) | 1;
	return words;
}

/** Mixes the two halves of a 64-bit hash to 32 bits (signed). Three keyed rounds; every input bit reaches every output bit. */
export function mix64(
	high: number,
	low: number,
	k0: number,
	m0: number,
	k1: number,
	m1: number,
): number {
	let x = Math.imul(low ^ k0, m0);
	x ^= x >>> 15;
	let y = Math.imul(high ^ k1 ^ x, m1);
	y ^= y >>> 13;
	x = Math.imul((x + y) | 0, m0);
	x ^= x >>> 16;
	x = Math.imul(x ^ y, m1);
	return x ^ (x >>> 15);
}

/** Writes a 64-bit hash over `count` words, which pack `bytes` bytes, to `hash` (high word, low word). */
export type WordHash = (
	words: Int32Array,
	from: number,
	count: number,
	bytes: number,
	k0: number,
	k1: number,
	hash: Int32Array,
) => void;

/**
 * HalfSipHash with one round per word and three at the end, keyed by two secret words: the variant of SipHash (Aumasson
 * and Bernstein, "SipHash: a fast short-input PRF", 2012) for 32-bit machines, in the form that the Linux kernel uses for
 * its hash tables. Whoever does not know the secrets finds no keys that agree more often than chance has it; every word
 * goes into a state of 128 bits that no difference in two or three words can cancel for all secrets.
 *
 * The low word is the 32-bit hash, over words that count as little-endian ones and a last one with the length. The high
 * word takes three further rounds, as in the 64-bit form of the function.
 */
export const hashWords: WordHash = (
	words,
	from,
	count,
	bytes,
	k0,
	k1,
	hash,
) => {
	let v0 = k0 | 0;
	let v1 = k1 | 0;
	let v2 = k0 ^ 0x6c796765;
	let v3 = k1 ^ 0x74656462;
	// One round for every word and for the length, three for 0xff, three more for 0xdd.
	for (let step = 0; step < count + 7; step++) {
		let word = 0;
		if (step < count) word = words[from + step] as number;
		else if (step === count) word = bytes << 24;
		else if (step === count + 1) v2 ^= 0xff;
		else if (step === count + 4) {
			hash[1] = v1 ^ v3;
			v1 ^= 0xdd;
		}
		v3 ^= word;
		v0 = (v0 + v1) | 0;
		v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
		v0 = (v0 << 16) | (v0 >>> 16);
		v2 = (v2 + v3) | 0;
		v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
		v0 = (v0 + v3) | 0;
		v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
		v2 = (v2 + v1) | 0;
		v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
		v2 = (v2 << 16) | (v2 >>> 16);
		v0 ^= word;
	}
	hash[0] = v1 ^ v3;
};
