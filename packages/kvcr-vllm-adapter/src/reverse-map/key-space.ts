/**
 * How mixed hashes are spread over the prefixes of a segmented table. Splits of equally loaded segments would all fall due
 * together and halve the load of the whole table; the space is therefore divided unevenly (by up to a factor of two), which
 * spreads the splits evenly over growth and keeps the load of the whole near two thirds.
 *
 * Shares fall geometrically along the range of mixed hashes: its first part `u` takes `2 - 2^(1-u)` of the space. A cubic
 * follows that curve to a thousandth, and needs no table.
 */

/** An enum for the reason given in segment.ts. */
enum Space {
	Bits = 24,
	/** Coefficients for a range of 2^24. They add up to 1, so that the largest hash has the last position. */
	First = 1.386185,
	Second = 0.465462 / 2 ** 24,
	Third = 0.079277 / 2 ** 48,
}

/** Bits of a position. */
export const SPACE_BITS: number = Space.Bits;

/** Position of a mixed hash in the divided space, 0 to 2^24-1. It rises with the mixed hash. */
export function positionOf(mixed: number): number {
	const x = mixed >>> (32 - Space.Bits);
	return (x * (Space.First - x * (Space.Second - x * Space.Third))) | 0;
}
