/** Runs of consecutive elements, and a cursor over their bytes. */
import type { RegionMemory } from "./region-memory.js";

/** `count` consecutive elements of a region. */
export interface Run {
	readonly region: RegionMemory;
	readonly first: number;
	readonly count: number;
}

/** `count` consecutive elements of a peer's region, which is known by its index. */
export interface RemoteRun {
	readonly index: number;
	readonly first: number;
	readonly count: number;
}

/** The pairs of a write as runs on either side, neighbors joined. */
export class PairRuns {
	readonly #local: { region: RegionMemory; first: number; count: number }[] =
		[];
	readonly #remote: { index: number; first: number; count: number }[] = [];

	/** Where the bytes come from. */
	get local(): readonly Run[] {
		return this.#local;
	}

	/** Where they go. */
	get remote(): readonly RemoteRun[] {
		return this.#remote;
	}

	/** Takes the next pair. */
	readonly add = (
		_index: number,
		region: RegionMemory,
		element: number,
		remoteRegion: number,
		remoteElement: number,
	): void => {
		const from = this.#local.at(-1);
		if (from?.region === region && from.first + from.count === element)
			from.count += 1;
		else this.#local.push({ region, first: element, count: 1 });
		const to = this.#remote.at(-1);
		if (to?.index === remoteRegion && to.first + to.count === remoteElement)
			to.count += 1;
		else
			this.#remote.push({
				index: remoteRegion,
				first: remoteElement,
				count: 1,
			});
	};
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
