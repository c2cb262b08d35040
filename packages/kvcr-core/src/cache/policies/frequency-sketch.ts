/** Approximate counts for very many keys in fixed memory. */

const ROWS = 4;
const MAX_COUNT = 255;

/**
 * A count-min sketch with aging, as TinyLFU uses it (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission
 * Policy", ACM Transactions on Storage 13(4), 2017). Counts are never too low, and rarely too high while fewer keys than
 * half of `width` were counted lately. Aging halves counters a few at a time, so that no call takes long.
 */
export class FrequencySketch {
	readonly #counts: Uint8Array;
	readonly #mask: number;
	#agingAt = 0;
	#agingDebt = 0;

	/** @param width Counters per row, rounded up to a power of two. One byte each, four rows. */
	constructor(width: number) {
		const size = 2 ** Math.ceil(Math.log2(Math.max(64, width)));
		this.#counts = new Uint8Array(size * ROWS);
		this.#mask = size - 1;
	}

	/** Counters per row. */
	get width(): number {
		return this.#mask + 1;
	}

	/** The count of a key. */
	estimate(key: string): number {
		const hash = hashText(key);
		const step = secondHash(hash);
		let least = MAX_COUNT;
		for (let row = 0; row < ROWS; row++) {
			least = Math.min(
				least,
				this.#counts[this.#cell(row, hash, step)] as number,
			);
		}
		return least;
	}

	/** Adds to the count of a key; counts saturate at 255. */
	add(key: string, amount: number): void {
		const hash = hashText(key);
		const step = secondHash(hash);
		const target = Math.min(MAX_COUNT, this.estimate(key) + amount);
		for (let row = 0; row < ROWS; row++) {
			const cell = this.#cell(row, hash, step);
			// Only counters below the new estimate rise: keys that share one of them are disturbed less.
			if ((this.#counts[cell] as number) < target) this.#counts[cell] = target;
		}
	}

	/** Halves a share of all counters: after calls whose fractions add up to 1, each was halved once. */
	age(fraction: number): void {
		this.#agingDebt += Math.min(1, fraction) * this.#counts.length;
		for (; this.#agingDebt >= 1; this.#agingDebt--) {
			this.#counts[this.#agingAt] =
				(this.#counts[this.#agingAt] as number) >> 1;
			this.#agingAt = (this.#agingAt + 1) % this.#counts.length;
		}
	}

	#cell(row: number, hash: number, step: number): number {
		return (
			row * (this.#mask + 1) + ((hash + Math.imul(row, step)) & this.#mask)
		);
	}
}

/** FNV-1a over the low bytes of the characters, with a final mix for the low bits. */
function hashText(text: string): number {
	let hash = 0x811c9dc5;
	for (let i = 0; i < text.length; i++)
		hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
	hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
	return (hash ^ (hash >>> 13)) >>> 0;
}

/** An odd number derived from a hash, so that the rows of two colliding keys differ. */
function secondHash(hash: number): number {
	return (Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 7) | 1;
}
