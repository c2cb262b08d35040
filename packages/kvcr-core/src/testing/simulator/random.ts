/** Numbers that look random and depend on a seed alone. */

/** A seeded generator (sfc32). Two of equal seed give equal numbers for ever. */
export class SimRandom {
	#a: number;
	#b: number;
	#c: number;
	#d = 1;

	/** @param seed Any text; different texts give unrelated sequences. */
	constructor(seed: string) {
		this.#a = hashText(seed, 0x9e3779b9);
		this.#b = hashText(seed, 0x243f6a88);
		this.#c = hashText(seed, 0xb7e15162);
		for (let i = 0; i < 12; i += 1) this.next();
	}

	/** The next number, 0 ≤ n < 1. */
	next(): number {
		const sum = (((this.#a + this.#b) | 0) + this.#d) | 0;
		this.#d = (this.#d + 1) | 0;
		this.#a = this.#b ^ (this.#b >>> 9);
		this.#b = (this.#c + (this.#c << 3)) | 0;
		this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
		return (sum >>> 0) / 0x1_0000_0000;
	}

	/** An integer, 0 ≤ n < `limit`. */
	below(limit: number): number {
		return Math.floor(this.next() * limit);
	}

	/** An integer, `low` ≤ n ≤ `high`. */
	between(low: number, high: number): number {
		return low + this.below(high - low + 1);
	}

	/** True with a probability of `p`. */
	chance(p: number): boolean {
		return p > 0 && this.next() < p;
	}

	/** One of the values, which must not be empty. */
	pick<T>(values: readonly T[]): T {
		return values[this.below(values.length)] as T;
	}

	/** One of the names, by weight. */
	weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
		const names = Object.keys(weights) as T[];
		let left =
			this.next() * names.reduce((sum, name) => sum + weights[name], 0);
		for (const name of names) {
			left -= weights[name];
			if (left < 0) return name;
		}
		return names.at(-1) as T;
	}

	/** `count` different integers below `limit` (fewer when there are not so many), in random order. */
	distinct(count: number, limit: number): number[] {
		const chosen = new Set<number>();
		const wanted = Math.min(count, limit);
		while (chosen.size < wanted) chosen.add(this.below(limit));
		return [...chosen];
	}
}

/** FNV-1a over UTF-16 units, from a start value. */
export function hashText(text: string, start: number): number {
	let hash = start | 0;
	for (let i = 0; i < text.length; i += 1)
		hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
	hash ^= hash >>> 15;
	return Math.imul(hash, 0x2c1b3c6d) >>> 0;
}
