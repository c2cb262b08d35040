/**
 * A seeded trace of what prefix caching sees: few popular system prompts, under each a skewed set of templates or
 * documents, conversations that come back a few times, and a tail of blocks nobody asks for again.
 */

/** Settings of a trace. */
export interface TraceOptions {
	readonly seed: number;
	readonly requests: number;
	/** Distinct system prompts, their popularity by rank, and their lengths in blocks. */
	readonly systemPrompts: number;
	readonly systemSkew: number;
	readonly systemBlocks: readonly [least: number, most: number];
	/** Distinct documents or templates under each system prompt. */
	readonly documents: number;
	readonly documentSkew: number;
	readonly documentBlocks: readonly [least: number, most: number];
	/** Blocks that only this request, or its conversation, has. */
	readonly ownBlocks: readonly [least: number, most: number];
	/** Probability that a request continues a recent conversation instead of starting one. */
	readonly continues: number;
	/** Probability that a request is a long one-off text, which shares nothing. */
	readonly scans: number;
	readonly scanBlocks: readonly [least: number, most: number];
	/** Every so many requests the popularity ranks are shuffled a little: what is hot changes. */
	readonly driftEvery: number;
}

/** The trace the bench uses unless told otherwise. */
export const DEFAULT_TRACE: TraceOptions = {
	seed: 20240611,
	requests: 20_000,
	systemPrompts: 40,
	systemSkew: 1.0,
	systemBlocks: [8, 48],
	documents: 60,
	documentSkew: 0.9,
	documentBlocks: [4, 32],
	ownBlocks: [4, 24],
	continues: 0.35,
	scans: 0.06,
	scanBlocks: [64, 256],
	driftEvery: 4_000,
};

/** A small, fast, well-known generator (mulberry32); returns numbers from 0 to below 1. */
export function seededRandom(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (state + 0x6d2b79f5) >>> 0;
		let mixed = Math.imul(state ^ (state >>> 15), state | 1);
		mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
	};
}

/** Yields the blocks of one request after the other, as names in prefix order. */
export function* sharedPrefixTrace(
	options: TraceOptions,
): Generator<readonly string[]> {
	const random = seededRandom(options.seed);
	const between = ([least, most]: readonly [number, number]): number =>
		least + Math.floor(random() * (most - least + 1));
	const pickSystem = zipf(options.systemPrompts, options.systemSkew, random);
	const pickDocument = zipf(options.documents, options.documentSkew, random);
	const ranks = Array.from({ length: options.systemPrompts }, (_, i) => i);
	const systems = ranks.map((s) =>
		names(`s${s}`, between(options.systemBlocks)),
	);
	const documents = ranks.map((s) =>
		Array.from({ length: options.documents }, (_, d) =>
			names(`s${s}/d${d}`, between(options.documentBlocks)),
		),
	);
	const recent: string[][] = [];
	for (let r = 0; r < options.requests; r++) {
		if (r > 0 && r % options.driftEvery === 0) drift(ranks, random);
		if (random() < options.scans) {
			yield names(`scan${r}`, between(options.scanBlocks));
			continue;
		}
		const continued = random() < options.continues && recent.length > 0;
		const slot = Math.floor(random() * recent.length);
		const history = continued ? (recent[slot] as string[]) : fresh();
		const blocks = [...history, ...names(`r${r}`, between(options.ownBlocks))];
		if (continued) recent[slot] = blocks;
		else recent.push(blocks);
		if (recent.length > 64) recent.shift();
		yield blocks;
	}

	function fresh(): string[] {
		const system = ranks[pickSystem()] as number;
		const document = documents[system]?.[pickDocument()] as string[];
		return [...(systems[system] as string[]), ...document];
	}
}

function names(prefix: string, count: number): string[] {
	return Array.from({ length: count }, (_, i) => `${prefix}:${i}`);
}

/** Swaps a tenth of the ranks with others. */
function drift(ranks: number[], random: () => number): void {
	for (let i = 0; i < Math.ceil(ranks.length / 10); i++) {
		const a = Math.floor(random() * ranks.length);
		const b = Math.floor(random() * ranks.length);
		[ranks[a], ranks[b]] = [ranks[b] as number, ranks[a] as number];
	}
}

/** Draws ranks from 0, rank r with a weight of 1 / (r + 1) ^ skew. */
function zipf(count: number, skew: number, random: () => number): () => number {
	const sums: number[] = [];
	let total = 0;
	for (let i = 0; i < count; i++) {
		total += 1 / (i + 1) ** skew;
		sums.push(total);
	}
	return () => {
		const target = random() * total;
		let low = 0;
		let high = count - 1;
		while (low < high) {
			const middle = (low + high) >> 1;
			if ((sums[middle] as number) < target) low = middle + 1;
			else high = middle;
		}
		return low;
	};
}
