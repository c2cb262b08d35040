/**
 * How mixed hashes are spread over the prefixes of a segmented table. Splits of equally loaded segments would all fall due
 * together and halve the load of the whole table; the space is therefore divided unevenly (by up to a factor of two), which
 * spreads the splits evenly over growth and keeps the load of the whole near two thirds.
 */

/** Bits of a position. */
export const SPACE_BITS = 24;

/** Start and stretch of each sixteenth of the mixed range in the divided space: shares fall geometrically. */
const PIECE_START = new Float64Array(16);
const PIECE_SCALE = new Float64Array(16);
{
	const total = Array.from({ length: 16 }, (_, i) => 2 ** (-i / 16));
	const sum = total.reduce((a, b) => a + b, 0);
	let start = 0;
	for (let i = 0; i < 16; i++) {
		const width = ((total[i] as number) / sum) * 2 ** SPACE_BITS;
		PIECE_START[i] = start;
		PIECE_SCALE[i] = width / 2 ** 20;
		start += width;
	}
}

/** Position of a mixed hash in the divided space, 0 to 2^24-1. */
export function positionOf(mixed: number): number {
	const piece = mixed >>> 28;
	return (
		((PIECE_START[piece] as number) +
			((mixed >>> 8) & 0xfffff) * (PIECE_SCALE[piece] as number)) |
		0
	);
}
