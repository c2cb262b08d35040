/** Runs of consecutive elements, and a cursor over their bytes. */
import type { RegionMemory } from "./region-memory.js";

/** `count` consecutive elements of a region. */
export interface Run {
	readonly region: RegionMemory;
	readonly first: number;
	readonly count: number;
}

/** Walks over the bytes of some runs in order. */
export class RunCursor {
	readonly #runs: readonly Run[];
	#index = 0;
	#offset = 0;
	#left = 0;

	constructor(runs: readonly Run[]) {
		this.#runs = runs;
		for (const { region, count } of runs)
			this.#left += region.elementBytes * count;
	}

	/** Bytes that remain. */
	get left(): number {
		return this.#left;
	}

	/** Region of the next byte; `undefined` at the end. */
	get region(): RegionMemory | undefined {
		return this.#runs[this.#index]?.region;
	}

	/** The next contiguous bytes, at most `maxBytes`; empty at the end, or when the region ended. */
	view(maxBytes: number): Uint8Array {
		const run = this.#runs[this.#index];
		if (run === undefined) return new Uint8Array(0);
		const { elementBytes } = run.region;
		const inRun = elementBytes * run.count - this.#offset;
		return run.region.span(
			elementBytes * run.first + this.#offset,
			Math.min(maxBytes, inRun),
		);
	}

	/** Moves on by `bytes`, which may cross runs. */
	advance(bytes: number): void {
		this.#left -= bytes;
		this.#offset += bytes;
		for (;;) {
			const run = this.#runs[this.#index];
			if (run === undefined) return;
			const length = run.region.elementBytes * run.count;
			if (this.#offset < length) return;
			this.#offset -= length;
			this.#index += 1;
		}
	}
}
