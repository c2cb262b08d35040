/**
 * Makes blocks resident: what is here counts at once, what is on its way is shared, the rest is pulled. The same work stands
 * behind `fetch` calls and behind independent hints; they differ only in who is told.
 */
import type {
	CapacityTicket,
	ManagedCache,
	Residency,
} from "../cache/index.js";
import type { AdviceStore } from "../hints/index.js";
import type { IntegrityChecker } from "../integrity/checker.js";
import type { AdviceId } from "../ports/index.js";
import type { TransferElement } from "../protocol/index.js";
import { sameLayout } from "../transfer/layout.js";
import type { Pull, PullFailure, PullListener } from "../transfer/pull.js";
import type { PullEngine } from "../transfer/pull-engine.js";
import type {
	AdmissionEntry,
	AdmissionListener,
	Admitter,
} from "./admitter.js";
import type { Fill, FillTable, FillWaiter } from "./fills.js";
import type { KeyRef } from "./key-ref.js";
import type { EntryStatus, FailureReason } from "./operations.js";
import { requestChunks } from "./request-chunks.js";
import type { ChosenSource, SourceSelector } from "./source-selector.js";

/** What the work needs. */
export interface FetchParts {
	readonly cache: ManagedCache;
	readonly fills: FillTable;
	readonly admitter: Admitter;
	readonly pulls: PullEngine;
	readonly selector: SourceSelector;
	readonly advice: AdviceStore;
	/** Checks what arrived before it becomes ready; absent: bytes are taken as they are. */
	readonly integrity: IntegrityChecker | undefined;
	/** Name of the local agent, as owner of the destination elements. */
	readonly agentName: string;
}

/** Told how each entry ended, in the owner's turn. Exactly one call per entry. */
export interface FetchSink {
	/** The block is ready. `here` is true when no transfer was needed. Claims must be taken before returning. */
	ready(entry: number, residency: Residency, here: boolean): void;
	failed(entry: number, status: EntryStatus, reason: FailureReason): void;
}

/** What to make resident. */
export interface FetchOrder {
	readonly keys: readonly KeyRef[];
	/** Layout of blocks that have to be pulled, and that resident ones must have. Undefined: any resident layout will do. */
	readonly layout: readonly string[] | undefined;
	/** Layout for pulled blocks when `layout` is undefined. */
	readonly defaultLayout: readonly string[] | undefined;
	readonly adviceId: AdviceId | undefined;
	/** Per key what its bytes must hash to, where the source has said so. */
	readonly checksums?: readonly (bigint | undefined)[] | undefined;
	/** Clock time. */
	readonly deadline: number;
}

export class FetchWork implements FillWaiter, AdmissionListener {
	readonly #parts: FetchParts;
	readonly #order: FetchOrder;
	readonly #sink: FetchSink;
	readonly #sources = new Map<number, ChosenSource>();
	readonly #tickets = new Map<number, CapacityTicket>();
	/** Reserved in the batch at hand, to be pulled together. */
	#reserved: { entry: number; residency: Residency }[] = [];

	constructor(parts: FetchParts, order: FetchOrder, sink: FetchSink) {
		this.#parts = parts;
		this.#order = order;
		this.#sink = sink;
	}

	/** Starts. @throws what an admission throws; then no slot is taken. */
	start(): void {
		const { keys, layout, defaultLayout, adviceId, deadline } = this.#order;
		const { cache, admitter, selector } = this.#parts;
		const missing: AdmissionEntry[] = [];
		const protect = new Set<string>();
		for (const [entry, ref] of keys.entries()) {
			protect.add(ref.text);
			const residency = cache.get(ref.text);
			if (residency !== undefined) {
				this.#present(entry, ref, residency);
				continue;
			}
			const source = selector.choose(adviceId, ref);
			const pulled = layout ?? defaultLayout;
			if (source === undefined || pulled === undefined)
				this.#sink.failed(entry, "FAILED", "no_source");
			else {
				this.#sources.set(entry, source);
				missing.push({ entry, keyText: ref.text, layout: pulled });
			}
		}
		admitter.admit(missing, "fetch", protect, deadline, this, this.#tickets);
		this.#pullReserved();
	}

	/** Nobody wants this entry any more. */
	abandon(entry: number): void {
		const ticket = this.#tickets.get(entry);
		this.#tickets.delete(entry);
		ticket?.cancel();
		const ref = this.#order.keys[entry];
		if (ref !== undefined) this.#parts.fills.leave(ref.text, this, entry);
	}

	reserved(entry: number, residency: Residency, late: boolean): void {
		this.#reserved.push({ entry, residency });
		if (late) this.#pullReserved();
	}

	known(entry: number, residency: Residency): void {
		const ref = this.#order.keys[entry];
		if (ref !== undefined) this.#present(entry, ref, residency);
	}

	refused(entry: number, status: EntryStatus, reason: FailureReason): void {
		this.#sink.failed(entry, status, reason);
	}

	filled(entry: number, residency: Residency): void {
		this.#sink.ready(entry, residency, false);
	}

	fillFailed(entry: number, reason: FailureReason): void {
		this.#sink.failed(entry, "FAILED", reason);
	}

	#present(entry: number, ref: KeyRef, residency: Residency): void {
		const { cache, fills } = this.#parts;
		const { layout } = this.#order;
		if (residency.state === "DISCARDING") {
			this.#sink.failed(entry, "FAILED", "quarantined");
			return;
		}
		if (layout !== undefined && !sameLayout(residency.layout, layout)) {
			this.#sink.failed(entry, "FAILED", "layout_mismatch");
			return;
		}
		if (residency.state === "READY") {
			// Whoever wants the block here wants it to stay.
			cache.cancelRetire(residency);
			this.#sink.ready(entry, residency, true);
		} else if (!fills.join(ref.text, this, entry))
			this.#sink.failed(entry, "FAILED", "quarantined");
	}

	#pullReserved(): void {
		const reserved = this.#reserved;
		this.#reserved = [];
		const groups = new Map<
			string,
			{ source: ChosenSource; members: typeof reserved }
		>();
		for (const member of reserved) {
			const source = this.#sources.get(member.entry);
			if (source === undefined) continue;
			const name = `${source.mode} ${source.allowFramework} ${source.endpoint}`;
			const group = groups.get(name);
			if (group === undefined) groups.set(name, { source, members: [member] });
			else group.members.push(member);
		}
		const started = new Set<Residency>();
		try {
			for (const { source, members } of groups.values()) {
				const chunks = requestChunks(
					members,
					({ residency }) => residency.keyText,
					({ residency }) => residency.layout,
					this.#parts.agentName,
				);
				for (const chunk of chunks) {
					this.#pull(source, chunk);
					for (const { residency } of chunk) started.add(residency);
				}
			}
		} catch (error) {
			// Progress has failed and nothing was asked for: the slots are free, and nobody is told but the caller.
			for (const { entry, residency } of reserved)
				if (!started.has(residency)) this.#giveBack(entry, residency);
			throw error;
		}
	}

	#giveBack(entry: number, residency: Residency): void {
		const { fills } = this.#parts;
		fills.leave(residency.keyText, this, entry);
		fills.withdraw(residency);
	}

	#pull(
		source: ChosenSource,
		members: readonly { entry: number; residency: Residency }[],
	): void {
		const { pulls, fills, agentName, cache } = this.#parts;
		const { keys, adviceId, deadline, checksums } = this.#order;
		const group = new FillGroup(this.#parts, adviceId);
		const refs: KeyRef[] = [];
		const destinations: TransferElement[][] = [];
		for (const { entry, residency } of members) {
			const ref = keys[entry];
			if (ref === undefined) continue;
			group.add(residency, checksums?.[entry]);
			fills.join(ref.text, this, entry);
			refs.push(ref);
			destinations.push(
				cache.pieces(residency).map((piece) => ({
					endPointName: agentName,
					elementIndex: piece.slot,
					label: piece.label,
					framework: false,
				})),
			);
		}
		group.pull = pulls.start({
			scope: "fetch",
			source: source.endpoint,
			keys: refs,
			destinations,
			bytesOf: (index) => members[index]?.residency.sizeBytes ?? 0,
			mode: source.mode,
			allowFramework: source.allowFramework,
			deadline,
			listener: group,
		});
	}
}

/** The fills behind one pull. */
class FillGroup implements PullListener {
	readonly #parts: FetchParts;
	readonly #adviceId: AdviceId | undefined;
	readonly #members: Fill[] = [];
	readonly #checksums: (bigint | undefined)[] = [];
	pull: Pull | undefined;

	constructor(parts: FetchParts, adviceId: AdviceId | undefined) {
		this.#parts = parts;
		this.#adviceId = adviceId;
	}

	add(residency: Residency, checksum: bigint | undefined): void {
		this.#members.push(
			this.#parts.fills.begin(residency, () => this.#cancelIfUnwanted()),
		);
		this.#checksums.push(checksum);
	}

	expired(_pull: Pull, reason: PullFailure): void {
		const { advice, fills } = this.#parts;
		if (this.#adviceId !== undefined && reason !== "aborted")
			advice.fail(this.#adviceId);
		for (const fill of this.#members) fills.discard(fill, reason);
	}

	abandoned(): void {
		// The waiters were told at the deadline; the slots stay where they are.
	}

	finished(
		_pull: Pull,
		completed: ReadonlySet<number>,
		reason: PullFailure,
	): void {
		const { advice, fills } = this.#parts;
		const absent: string[] = [];
		for (const [index, fill] of this.#members.entries()) {
			if (completed.has(index)) {
				this.#arrived(fill, this.#checksums[index]);
				continue;
			}
			if (reason === "not_at_source") absent.push(fill.residency.keyText);
			fills.fail(fill, reason);
		}
		if (this.#adviceId === undefined) return;
		if (absent.length > 0) advice.addMissing(this.#adviceId, absent);
		else if (completed.size === 0 && reason !== "aborted")
			advice.fail(this.#adviceId);
	}

	/** All bytes are here. With a checksum they are checked before anybody may see them. */
	#arrived(fill: Fill, checksum: bigint | undefined): void {
		const { fills, integrity } = this.#parts;
		if (integrity === undefined || checksum === undefined) {
			integrity?.unchecked();
			fills.complete(fill);
			return;
		}
		integrity.verify(fill.residency, checksum, (verdict) => {
			if (verdict === "right") fills.complete(fill);
			else fills.fail(fill, verdict);
		});
	}

	#cancelIfUnwanted(): void {
		if (
			this.pull === undefined ||
			this.#members.some((fill) => fill.waiters.length > 0)
		)
			return;
		this.#parts.pulls.cancel(this.pull, "aborted");
	}
}
