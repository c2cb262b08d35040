/** One resolution as its asker sees it: a list of hashes that goes out in pieces under one deadline. Local only. */
import type { Timer } from "../ports/clock.js";
import type { RouterHash } from "../ports/names.js";
import type { HashResult } from "../protocol/index.js";

/** Why no source answered for a hash. */
export type ResolutionFailure = "timeout" | "peer_unreachable" | "closed";

/** What became of one hash: the source's answer, or why there is none. */
export type ResolutionResult =
	| HashResult
	| { readonly status: ResolutionFailure };

/** Hears about a resolution. Called with hashes and results of equal length, each hash once, in no particular order. */
export type ResolutionListener = (
	hashes: readonly RouterHash[],
	results: readonly ResolutionResult[],
) => void;

/** Hashes of one operation that are, or were, asked for in one message. */
export interface ResolutionChunk {
	readonly op: HashResolutionOp;
	readonly id: bigint;
	readonly hashes: readonly RouterHash[];
}

/** States: `open` until its last hash has its result; `ended` after. */
export class HashResolutionOp {
	readonly endpoint: string;
	/** Clock time. */
	readonly deadline: number;
	readonly inFlight = new Map<bigint, ResolutionChunk>();
	timer: Timer | undefined;
	#state: "open" | "ended" = "open";
	/** Hashes given back to be asked for again. */
	#returned: RouterHash[] = [];
	readonly #hashes: readonly RouterHash[];
	#next = 0;
	readonly #onChunk: ResolutionListener;
	readonly #onDone: () => void;

	constructor(
		endpoint: string,
		hashes: readonly RouterHash[],
		deadline: number,
		onChunk: ResolutionListener,
		onDone: () => void,
	) {
		this.endpoint = endpoint;
		this.deadline = deadline;
		this.#hashes = hashes;
		this.#onChunk = onChunk;
		this.#onDone = onDone;
	}

	get ended(): boolean {
		return this.#state === "ended";
	}

	/** Hashes that are not asked for at the moment. */
	get waiting(): number {
		return this.#hashes.length - this.#next + this.#returned.length;
	}

	/** Takes up to `count` hashes to ask for. */
	take(count: number): readonly RouterHash[] {
		if (this.#returned.length > 0) return this.#returned.splice(0, count);
		const from = this.#next;
		this.#next = Math.min(this.#hashes.length, from + count);
		return this.#hashes.slice(from, this.#next);
	}

	/** Gives hashes back, to be asked for in a later message. */
	giveBack(hashes: readonly RouterHash[]): void {
		this.#returned = this.#returned.concat(hashes);
	}

	deliver(
		hashes: readonly RouterHash[],
		results: readonly ResolutionResult[],
	): void {
		if (!this.ended && hashes.length > 0) this.#onChunk(hashes, results);
	}

	/** Ends the operation if nothing of it is under way or waiting. */
	endIfComplete(): void {
		if (!this.ended && this.inFlight.size === 0 && this.waiting === 0)
			this.#end();
	}

	/** Ends the operation with one result for everything still open. */
	fail(status: ResolutionFailure): void {
		if (this.ended) return;
		const open: RouterHash[] = [];
		for (const chunk of this.inFlight.values())
			for (const hash of chunk.hashes) open.push(hash);
		this.inFlight.clear();
		while (this.waiting > 0)
			for (const hash of this.take(this.waiting)) open.push(hash);
		const result = { status };
		this.deliver(
			open,
			open.map(() => result),
		);
		this.#end();
	}

	#end(): void {
		if (this.ended) return;
		this.#state = "ended";
		this.timer?.cancel();
		this.timer = undefined;
		this.#onDone();
	}
}
