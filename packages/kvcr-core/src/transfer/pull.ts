/**
 * The destination's side of one transfer: ask a source to write blocks into our memory, and know for certain when that
 * memory can be used again.
 *
 * connecting → requested → finished
 *                  ↘ cancelling → finished
 *                          ↘ quarantined → finished
 *
 * Only `finished` makes the destination memory safe. Deadlines change who is waiting, never what is safe.
 */

import type { KeyRef } from "../owner/key-ref.js";
import type {
	Clock,
	Incarnation,
	OpHandle,
	Timer,
	TrafficExpectation,
} from "../ports/index.js";
import { KvcrError } from "../ports/index.js";
import type { TransferElement, WriteDone } from "../protocol/index.js";
import type { SourceWaiter } from "./sources.js";

/** States of a pull. */
export type PullState =
	| "connecting"
	| "requested"
	| "cancelling"
	| "quarantined"
	| "finished";

/** Why keys of a pull did not arrive. */
export type PullFailure =
	| "timeout"
	| "peer_unreachable"
	| "transfer_failed"
	| "not_at_source"
	| "aborted"
	| "closed"
	| "uncertain";

/** What to pull. */
export interface PullRequest {
	/** `fetch` fills managed memory, `deliver` writes framework memory. */
	readonly scope: "fetch" | "deliver";
	/** Control endpoint of the source. */
	readonly source: string;
	readonly keys: readonly KeyRef[];
	/** Destination elements per key, in layout order. */
	readonly destinations: readonly (readonly TransferElement[])[];
	/** Bytes of all pieces of one key, for figures. */
	readonly bytesOf: (index: number) => number;
	readonly mode: "copy" | "move";
	readonly allowFramework: boolean;
	/** Clock time at which the caller stops waiting. */
	readonly deadline: number;
	readonly listener: PullListener;
}

/** Told about a pull, always on the owner's side, in this order; `finished` comes exactly once, last. */
export interface PullListener {
	/** The caller's time is over, the memory is not safe yet. At most once. */
	expired(pull: Pull, reason: PullFailure): void;
	/** Even the abandonment deadline passed. At most once, after `expired`. */
	abandoned(pull: Pull): void;
	/**
	 * The transfer is over and its memory is safe. `completed` holds the indices of the keys whose bytes are here; empty after
	 * `expired`.
	 */
	finished(
		pull: Pull,
		completed: ReadonlySet<number>,
		reason: PullFailure,
	): void;
}

const NEXT: Readonly<Record<PullState, readonly PullState[]>> = {
	connecting: ["requested", "finished"],
	requested: ["connecting", "cancelling", "finished"],
	cancelling: ["quarantined", "finished"],
	quarantined: ["finished"],
	finished: [],
};

/** One transfer at its destination. State changes go through `enter`; the engine decides them. */
export class Pull {
	readonly request: PullRequest;
	readonly startedAt: number;
	/** Handle of the current attempt on the wire; a refused attempt gets a new one. */
	handle: OpHandle | undefined;
	incarnation: Incarnation | undefined;
	/** Name of the agent that was asked to write: only its notifications count. */
	agentName: string | undefined;
	attempts = 0;
	/** Why a cancelled pull was cancelled. */
	cause: PullFailure = "transfer_failed";
	timer: Timer | undefined;
	expectation: TrafficExpectation | undefined;
	/** What the source directory tells when the source is known. */
	waiter: SourceWaiter | undefined;
	/** Probes sent so far. */
	probes = 0;
	#state: PullState = "connecting";

	constructor(request: PullRequest, clock: Clock) {
		this.request = request;
		this.startedAt = clock.now();
	}

	get state(): PullState {
		return this.#state;
	}

	/** @throws KvcrError for a transition that the protocol does not have: a defect, never bad input. */
	enter(next: PullState): void {
		if (!NEXT[this.#state].includes(next)) {
			throw new KvcrError(
				"ERR_KVCR_STATE",
				`pull ${this.handle}: ${this.#state} cannot become ${next}`,
			);
		}
		this.#state = next;
	}
}

/** The indices a successful notification completes; undefined when they do not fit the request. */
export function completedIndices(
	done: WriteDone,
	keyCount: number,
): ReadonlySet<number> | undefined {
	const indices = new Set<number>();
	for (const index of done.completedIndices) {
		if (index >= keyCount) return undefined;
		indices.add(index);
	}
	return indices;
}
