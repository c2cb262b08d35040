/** Copies blocks into memory the framework named: from managed memory when they are here, from a peer otherwise. */
import type { ManagedCache, Residency } from "../cache/index.js";
import type { AdviceStore } from "../hints/index.js";
import type { AdviceId, FrameworkPiece } from "../ports/index.js";
import { layoutIndices } from "../transfer/layout.js";
import type { Pull, PullFailure, PullListener } from "../transfer/pull.js";
import type { PullEngine } from "../transfer/pull-engine.js";
import type { FillTable, FillWaiter } from "./fills.js";
import type { FrameworkMemory } from "./framework-memory.js";
import type { CopyJob, CopyListener, LocalCopier } from "./local-copier.js";
import type {
	Abortable,
	FailureReason,
	Operation,
	OperationTable,
} from "./operations.js";
import { requestChunks } from "./request-chunks.js";
import type { ChosenSource, SourceSelector } from "./source-selector.js";

/** What the work needs. */
export interface DeliverParts {
	readonly cache: ManagedCache | undefined;
	readonly fills: FillTable | undefined;
	readonly memory: FrameworkMemory;
	readonly copier: LocalCopier;
	readonly pulls: PullEngine;
	readonly selector: SourceSelector;
	readonly advice: AdviceStore;
	readonly operations: OperationTable;
}

export class DeliverWork implements FillWaiter, CopyListener, Abortable {
	readonly #parts: DeliverParts;
	readonly #operation: Operation;
	readonly #destinations: readonly (readonly FrameworkPiece[])[];
	readonly #adviceId: AdviceId | undefined;
	readonly #deadline: number;
	/** Blocks claimed for a copy in progress, by entry. */
	readonly #claimed = new Map<number, Residency>();
	readonly #copies = new Map<number, CopyJob>();
	readonly #pulls = new Set<DeliverPull>();

	/** @param destinations Checked pieces per key of the operation. @param deadline Clock time. */
	constructor(
		parts: DeliverParts,
		operation: Operation,
		destinations: readonly (readonly FrameworkPiece[])[],
		adviceId: AdviceId | undefined,
		deadline: number,
	) {
		this.#parts = parts;
		this.#operation = operation;
		this.#destinations = destinations;
		this.#adviceId = adviceId;
		this.#deadline = deadline;
	}

	start(): void {
		const { cache, fills, copier, selector } = this.#parts;
		const copies: CopyJob[] = [];
		const remote = new Map<
			string,
			{ source: ChosenSource; entries: number[] }
		>();
		for (const [entry, ref] of this.#operation.keys.entries()) {
			const residency = cache?.get(ref.text);
			if (residency?.state === "READY") {
				const job = this.#claimForCopy(entry, residency);
				if (job !== undefined) copies.push(job);
				continue;
			}
			if (residency?.state === "FILLING" && fills?.join(ref.text, this, entry))
				continue;
			const source = selector.choose(this.#adviceId, ref);
			if (source === undefined) {
				this.#fail(entry, "no_source");
				continue;
			}
			const name = `${source.mode} ${source.allowFramework} ${source.endpoint}`;
			const group = remote.get(name);
			if (group === undefined) remote.set(name, { source, entries: [entry] });
			else group.entries.push(entry);
		}
		for (const { source, entries } of remote.values()) {
			const chunks = requestChunks(
				entries,
				(entry) => this.#operation.keys[entry]?.text ?? "",
				(entry) =>
					(this.#destinations[entry] ?? []).map((piece) => piece.label),
				this.#parts.memory.agentName,
			);
			for (const chunk of chunks) this.#pull(source, chunk);
		}
		copier.copy(copies);
	}

	filled(entry: number, residency: Residency): void {
		// The call failed after it had joined: its memory is the caller's again.
		if (this.#operation.results[entry] !== undefined) return;
		const job = this.#claimForCopy(entry, residency);
		if (job !== undefined) this.#parts.copier.copy([job]);
	}

	fillFailed(entry: number, reason: FailureReason): void {
		this.#fail(entry, reason);
	}

	copied(entry: number, ok: boolean): void {
		this.#copies.delete(entry);
		const residency = this.#claimed.get(entry);
		this.#claimed.delete(entry);
		if (residency !== undefined) this.#parts.cache?.unclaim(residency);
		if (ok)
			this.#parts.operations.settle(this.#operation, entry, {
				status: "SUCCESS",
			});
		else this.#fail(entry, "transfer_failed");
	}

	/** A pull into this memory is running: its end, not the abort, ends the entry, because the memory is not safe before. */
	abortEntry(entry: number): void {
		const ref = this.#operation.keys[entry];
		const copy = this.#copies.get(entry);
		if (copy !== undefined) {
			copy.cancelled = true;
			this.#fail(entry, "aborted");
			return;
		}
		for (const pull of this.#pulls) if (pull.abort(entry)) return;
		if (ref !== undefined) this.#parts.fills?.leave(ref.text, this, entry);
		this.#fail(entry, "aborted");
	}

	/** Called by a pull of this work. */
	pulled(entry: number, reason: FailureReason | undefined): void {
		if (reason === undefined)
			this.#parts.operations.settle(this.#operation, entry, {
				status: "SUCCESS",
			});
		else this.#fail(entry, reason);
	}

	/** Called by a pull of this work at its end. */
	pullEnded(pull: DeliverPull): void {
		this.#pulls.delete(pull);
	}

	#claimForCopy(entry: number, residency: Residency): CopyJob | undefined {
		const { cache } = this.#parts;
		const destination = this.#destinations[entry];
		if (cache === undefined || destination === undefined) return undefined;
		const labels = destination.map((piece) => piece.label);
		const indices = layoutIndices(residency.layout, labels, true);
		if (indices === undefined) {
			this.#fail(entry, "layout_mismatch");
			return undefined;
		}
		const pieces = cache.pieces(residency);
		let targets: Uint8Array[];
		try {
			targets = destination.map((piece) => piece.region.element(piece.element));
		} catch {
			// The framework has released the memory meanwhile. That is about this entry and nobody else.
			this.#fail(entry, "transfer_failed");
			return undefined;
		}
		const job: CopyJob = {
			sources: indices.map((index) => {
				const piece = pieces[index];
				return piece === undefined
					? new Uint8Array(0)
					: piece.region.element(piece.slot);
			}),
			targets,
			listener: this,
			entry,
			cancelled: false,
		};
		cache.claim(residency);
		this.#claimed.set(entry, residency);
		this.#copies.set(entry, job);
		return job;
	}

	#pull(source: ChosenSource, entries: readonly number[]): void {
		const { pulls, memory, advice } = this.#parts;
		const listener = new DeliverPull(
			this,
			entries,
			this.#operation,
			pulls,
			advice,
			this.#adviceId,
		);
		this.#pulls.add(listener);
		const destinations = entries.map(
			(entry) => this.#destinations[entry] ?? [],
		);
		listener.pull = pulls.start({
			scope: "deliver",
			source: source.endpoint,
			keys: entries.flatMap((entry) => this.#operation.keys[entry] ?? []),
			destinations: destinations.map((pieces) =>
				pieces.map((piece) => memory.element(piece)),
			),
			bytesOf: (index) =>
				(destinations[index] ?? []).reduce(
					(sum, piece) => sum + piece.region.elementBytes,
					0,
				),
			mode: source.mode,
			allowFramework: source.allowFramework,
			deadline: this.#deadline,
			listener,
		});
	}

	#fail(entry: number, reason: FailureReason): void {
		this.#parts.operations.settle(this.#operation, entry, {
			status: "FAILED",
			reason,
		});
	}
}

/** One pull of a delivery: reports entries when their memory is safe, or given up as uncertain. */
class DeliverPull implements PullListener {
	readonly #work: DeliverWork;
	readonly #entries: readonly number[];
	readonly #operation: Operation;
	readonly #pulls: PullEngine;
	readonly #advice: AdviceStore;
	readonly #adviceId: AdviceId | undefined;
	readonly #aborted = new Set<number>();
	pull: Pull | undefined;

	constructor(
		work: DeliverWork,
		entries: readonly number[],
		operation: Operation,
		pulls: PullEngine,
		advice: AdviceStore,
		adviceId: AdviceId | undefined,
	) {
		this.#work = work;
		this.#entries = entries;
		this.#operation = operation;
		this.#pulls = pulls;
		this.#advice = advice;
		this.#adviceId = adviceId;
	}

	/** True when the entry belongs to this pull. The pull itself is cancelled once all of its entries are aborted. */
	abort(entry: number): boolean {
		if (!this.#entries.includes(entry) || this.pull === undefined) return false;
		this.#aborted.add(entry);
		if (this.#aborted.size === this.#entries.length)
			this.#pulls.cancel(this.pull, "aborted");
		return true;
	}

	expired(_pull: Pull, reason: PullFailure): void {
		if (this.#adviceId !== undefined && reason !== "aborted")
			this.#advice.fail(this.#adviceId);
	}

	abandoned(): void {
		for (const entry of this.#entries) this.#work.pulled(entry, "uncertain");
	}

	finished(
		_pull: Pull,
		completed: ReadonlySet<number>,
		reason: PullFailure,
	): void {
		const absent: string[] = [];
		for (const [index, entry] of this.#entries.entries()) {
			if (this.#aborted.has(entry)) this.#work.pulled(entry, "aborted");
			else if (completed.has(index)) this.#work.pulled(entry, undefined);
			else {
				const text = this.#operation.keys[entry]?.text;
				if (reason === "not_at_source" && text !== undefined) absent.push(text);
				this.#work.pulled(entry, reason);
			}
		}
		this.#work.pullEnded(this);
		if (this.#adviceId === undefined) return;
		if (absent.length > 0) this.#advice.addMissing(this.#adviceId, absent);
		else if (completed.size === 0 && reason !== "aborted")
			this.#advice.fail(this.#adviceId);
	}
}
