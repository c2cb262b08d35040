/** What became of the hashes of independent hints, and the reporting of it. */
import type { Clock, Timer } from "../ports/clock.js";
import type { RouterHash } from "../ports/names.js";
import type { UnresolvedStatus } from "../protocol/index.js";

/** How the fetch of one block ended. */
export type PlacementOutcome =
	| "placed"
	| "already_resident"
	| "admission_failed"
	| "transfer_failed"
	/** The bytes that arrived do not have the checksum the source gave: the block was dropped. */
	| "integrity_failed"
	| "timeout"
	| "peer_unreachable"
	| "closed";

/** How a hash of an independent hint ended: every hash has exactly one. */
export type HintOutcome =
	| PlacementOutcome
	| UnresolvedStatus
	/** The key that came back does not have the hash asked for, by this side's adapter. */
	| "key_mismatch"
	/** The block's pieces do not fit this side's pools. */
	| "layout_mismatch";

/** One outcome. */
export interface HintOutcomeReport {
	/** Names the action within this instance. */
	readonly hintId: string;
	/** `action_id` of the action, when it has one. */
	readonly actionId: string | undefined;
	/** Control endpoint the hint named. */
	readonly source: string;
	/** The hash the outcome belongs to. */
	readonly hash: RouterHash;
	/** What became of it. */
	readonly outcome: HintOutcome;
	/** Bytes of the block when it was placed, otherwise 0. */
	readonly bytes: number;
	/** Milliseconds since the hint was submitted. */
	readonly elapsedMs: number;
}

/** Outcomes reported in one burst at most; what is beyond follows in later turns of the event loop. */
export const MAX_REPORTS_PER_TURN = 1_024;

/** A pause that ends a burst, in milliseconds: reports of one turn follow each other faster. */
const BURST_GAP_MS = 1;

/** Hands outcomes to a sink without holding up the event loop when very many come at once. */
export class OutcomeReporter {
	readonly #clock: Clock;
	readonly #sink: (report: HintOutcomeReport) => void;
	readonly #onError: (error: unknown) => void;
	#queue: HintOutcomeReport[] = [];
	#lastAt = Number.NEGATIVE_INFINITY;
	#burst = 0;
	#timer: Timer | undefined;

	/** @param onError Told when the sink throws; the report counts as made. */
	constructor(
		clock: Clock,
		sink: (report: HintOutcomeReport) => void,
		onError: (error: unknown) => void,
	) {
		this.#clock = clock;
		this.#sink = sink;
		this.#onError = onError;
	}

	/** Reports that have not been made yet. */
	get waiting(): number {
		return this.#queue.length;
	}

	report(report: HintOutcomeReport): void {
		if (this.#queue.length === 0 && this.#admits()) this.#make(report);
		else {
			this.#queue.push(report);
			this.#timer ??= this.#clock.schedule(0, () => this.#drain());
		}
	}

	/** Makes every report that waits, now. */
	flush(): void {
		this.#timer?.cancel();
		this.#timer = undefined;
		const queue = this.#queue;
		this.#queue = [];
		for (const report of queue) this.#make(report);
	}

	#admits(): boolean {
		const now = this.#clock.now();
		if (now - this.#lastAt >= BURST_GAP_MS) this.#burst = 0;
		this.#lastAt = now;
		return ++this.#burst <= MAX_REPORTS_PER_TURN;
	}

	#drain(): void {
		this.#timer = undefined;
		this.#burst = 0;
		const batch = this.#queue.slice(0, MAX_REPORTS_PER_TURN);
		this.#queue = this.#queue.slice(MAX_REPORTS_PER_TURN);
		for (const report of batch) this.#make(report);
		if (this.#queue.length > 0)
			this.#timer ??= this.#clock.schedule(0, () => this.#drain());
	}

	#make(report: HintOutcomeReport): void {
		try {
			this.#sink(report);
		} catch (error) {
			this.#onError(error);
		}
	}
}
