/**
 * Seeded mixing. Router hashes come from peers and routers, so an attacker may choose them; the seed keeps them from
 * choosing which ones share a place in a table.
 */
import { randomFillSync } from "node:crypto";

/** Secret words of one table: four for the 64-bit mix, four for the hash over whole keys. */
export type MixSeed = Int32Array;

/** Words in a {@link MixSeed}. */
export const MIX_SEED_WORDS = 8;

/**
 * A seed for one table: random, or spread from a number so that a test can repeat a run.
 * Multipliers (odd positions) are made odd, without which they would lose bits.
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
	for (let i = 1; i < MIX_SEED_WORDS; i += 2)
		words[i] = (words[i] as number) | 1;
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

/** 32-bit hash over `count` words. Two calls with different seed words give an index that needs no collision handling of its own. */
export function mixWords(
	words: Int32Array,
	from: number,
	count: number,
	key: number,
	multiplier: number,
): number {
	let x = key ^ count;
	for (let i = from; i < from + count; i++) {
		x = Math.imul((x ^ (words[i] as number)) + key, multiplier);
		x ^= x >>> 15;
	}
	x = Math.imul(x + key, multiplier);
	return x ^ (x >>> 16);
}
