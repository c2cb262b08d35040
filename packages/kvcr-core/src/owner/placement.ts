/** Fetches on behalf of independent hints: no handle, no completion, claims only while a group is under way. */
import type { Residency } from "../cache/index.js";
import type { PlacementGroup, PlacementOutcome } from "../hints/independent.js";
import { type FetchParts, type FetchSink, FetchWork } from "./fetch-work.js";
import { keyRef } from "./key-ref.js";
import type { EntryStatus, FailureReason } from "./operations.js";

/**
 * Runs one group as an ordinary fetch under its advice.
 * @param deadline Clock time.
 * @param done Told once, in the owner's turn, with one outcome per key, in their order.
 * @throws what an admission throws; then `done` is never called.
 */
export function placeGroup(
	parts: FetchParts,
	group: PlacementGroup,
	deadline: number,
	done: (outcomes: readonly PlacementOutcome[]) => void,
): void {
	const sink = new GroupSink(group, done);
	const order = {
		keys: group.keys.map(keyRef),
		layout: group.layout,
		defaultLayout: undefined,
		adviceId: group.adviceId,
		checksums: group.checksums,
		deadline,
	};
	try {
		new FetchWork(parts, order, sink).start();
	} catch (error) {
		sink.abandon();
		throw error;
	}
	sink.started();
}

class GroupSink implements FetchSink {
	readonly #group: PlacementGroup;
	readonly #done: (outcomes: readonly PlacementOutcome[]) => void;
	readonly #outcomes = new Map<number, PlacementOutcome>();
	#running = false;
	#ended = false;

	constructor(
		group: PlacementGroup,
		done: (outcomes: readonly PlacementOutcome[]) => void,
	) {
		this.#group = group;
		this.#done = done;
	}

	ready(entry: number, _residency: Residency, here: boolean): void {
		this.#end(entry, here ? "already_resident" : "placed");
	}

	failed(entry: number, _status: EntryStatus, reason: FailureReason): void {
		this.#end(entry, outcomeOf(reason));
	}

	/** The admission threw: entries that still end are nobody's business any more. */
	abandon(): void {
		this.#ended = true;
	}

	/** From now on the last entry to end reports the group; it may have ended already. */
	started(): void {
		this.#running = true;
		this.#report();
	}

	#end(entry: number, outcome: PlacementOutcome): void {
		if (this.#ended || this.#outcomes.has(entry)) return;
		this.#outcomes.set(entry, outcome);
		this.#report();
	}

	#report(): void {
		if (
			!this.#running ||
			this.#ended ||
			this.#outcomes.size < this.#group.keys.length
		)
			return;
		this.#ended = true;
		this.#done(
			this.#group.keys.map(
				(_, entry) => this.#outcomes.get(entry) ?? "transfer_failed",
			),
		);
	}
}

function outcomeOf(reason: FailureReason): PlacementOutcome {
	switch (reason) {
		case "timeout":
		case "integrity_failed":
		case "peer_unreachable":
		case "closed":
			return reason;
		case "not_at_source":
		case "transfer_failed":
		case "uncertain":
		case "aborted":
			return "transfer_failed";
		case "policy":
		case "policy_error":
		case "no_capacity":
		case "too_large":
		case "layout_mismatch":
		case "no_source":
		case "quarantined":
			return "admission_failed";
	}
}
