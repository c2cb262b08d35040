/** Admission into managed memory as operations need it: at once, or after waiting for capacity until a deadline. */
import type {
	AdmissionOutcome,
	CapacityTicket,
	CapacityWaiter,
	ManagedCache,
	Residency,
} from "../cache/index.js";
import type { IngestSource } from "../ports/index.js";
import type { FillTable } from "./fills.js";
import type { EntryStatus, FailureReason } from "./operations.js";

/** One block to admit. */
export interface AdmissionEntry {
	readonly entry: number;
	readonly keyText: string;
	readonly layout: readonly string[];
}

/** Told what became of each entry: exactly one call per entry, unless it is cancelled. */
export interface AdmissionListener {
	/** Slots are reserved. `late` is true when the entry had to wait. */
	reserved(entry: number, residency: Residency, late: boolean): void;
	/** Somebody else brought the block in meanwhile. */
	known(entry: number, residency: Residency): void;
	refused(entry: number, status: EntryStatus, reason: FailureReason): void;
}

/** An entry that waits for capacity. */
interface Waiting {
	readonly entry: AdmissionEntry;
	readonly listener: AdmissionListener;
	readonly tickets: Map<number, CapacityTicket>;
}

export class Admitter {
	readonly #cache: ManagedCache;
	/** Entries that wait, by key: one of them, or somebody else, brings the block in for all. */
	readonly #waiting = new Map<string, Set<Waiting>>();

	constructor(cache: ManagedCache, fills: FillTable) {
		this.#cache = cache;
		fills.onBegin = (residency) => this.#begun(residency);
	}

	/**
	 * Admits a batch. Entries that wait for capacity get a ticket in `tickets`, under their entry number.
	 * @param protect Keys that must not be evicted for this batch.
	 * @param deadline Clock time after which waiting ends.
	 */
	admit(
		entries: readonly AdmissionEntry[],
		source: IngestSource,
		protect: ReadonlySet<string>,
		deadline: number,
		listener: AdmissionListener,
		tickets: Map<number, CapacityTicket>,
	): void {
		const fitting = entries.filter((entry) => {
			// A pool without slots has no memory here: whatever needs it can never fit.
			if (this.#cache.pieceSizes(entry.layout) !== undefined) return true;
			listener.refused(entry.entry, "FAILED", "too_large");
			return false;
		});
		if (fitting.length === 0) return;
		const outcomes = this.#cache.admit(fitting, source, protect);
		for (const [index, outcome] of outcomes.entries()) {
			const entry = fitting[index] as AdmissionEntry;
			if (outcome.kind === "no_capacity") {
				this.#short(
					entry,
					outcome.missing,
					source,
					protect,
					deadline,
					listener,
					tickets,
				);
			} else deliver(entry.entry, outcome, listener, false);
		}
	}

	#short(
		entry: AdmissionEntry,
		missing: ReadonlyMap<string, number>,
		source: IngestSource,
		protect: ReadonlySet<string>,
		deadline: number,
		listener: AdmissionListener,
		tickets: Map<number, CapacityTicket>,
	): void {
		let failureCount = 1;
		const waiting: Waiting = { entry, listener, tickets };
		if (
			this.#cache.decideRecovery({ source, missing, failureCount }) === "fail"
		) {
			listener.refused(entry.entry, "FAILED", "no_capacity");
			return;
		}
		const retry = (): ReadonlyMap<string, number> | undefined => {
			const outcome = this.#cache.admit([entry], source, protect)[0];
			if (outcome === undefined) return undefined;
			if (outcome.kind === "no_capacity") {
				failureCount += 1;
				if (
					this.#cache.decideRecovery({
						source,
						missing: outcome.missing,
						failureCount,
					}) === "wait"
				)
					return outcome.missing;
				this.#endWait(waiting);
				listener.refused(entry.entry, "FAILED", "no_capacity");
				return undefined;
			}
			this.#endWait(waiting);
			deliver(entry.entry, outcome, listener, true);
			return undefined;
		};
		const expire: CapacityWaiter["expire"] = (reason) => {
			this.#endWait(waiting);
			listener.refused(
				entry.entry,
				"FAILED",
				reason === "closed" ? "closed" : "no_capacity",
			);
		};
		const ticket = this.#cache.waitForCapacity(
			{ retry, expire },
			missing,
			deadline,
		);
		tickets.set(entry.entry, {
			cancel: () => {
				this.#endWait(waiting);
				ticket.cancel();
			},
		});
		const others = this.#waiting.get(entry.keyText);
		if (others === undefined)
			this.#waiting.set(entry.keyText, new Set([waiting]));
		else others.add(waiting);
	}

	/** A block is on its way: whoever waited for slots to put it into joins. */
	#begun(residency: Residency): void {
		for (const waiting of this.#waiting.get(residency.keyText) ?? []) {
			const { entry, listener, tickets } = waiting;
			tickets.get(entry.entry)?.cancel();
			listener.known(entry.entry, residency);
		}
	}

	#endWait(waiting: Waiting): void {
		const { entry, tickets } = waiting;
		tickets.delete(entry.entry);
		const others = this.#waiting.get(entry.keyText);
		if (others?.delete(waiting) && others.size === 0)
			this.#waiting.delete(entry.keyText);
	}
}

function deliver(
	entry: number,
	outcome: Exclude<AdmissionOutcome, { kind: "no_capacity" }>,
	listener: AdmissionListener,
	late: boolean,
): void {
	switch (outcome.kind) {
		case "reserved": {
			listener.reserved(entry, outcome.residency, late);
			return;
		}
		case "known": {
			listener.known(entry, outcome.residency);
			return;
		}
		case "dropped": {
			listener.refused(entry, "DROPPED", "policy");
			return;
		}
		case "too_large": {
			listener.refused(entry, "FAILED", "too_large");
			return;
		}
		case "policy_error": {
			listener.refused(entry, "FAILED", "policy_error");
			return;
		}
	}
}
