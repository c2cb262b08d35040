/** Copies blocks of the framework into managed memory. */
import type {
	CapacityTicket,
	ManagedCache,
	Residency,
} from "../cache/index.js";
import { sameLayout } from "../transfer/layout.js";
import type {
	AdmissionEntry,
	AdmissionListener,
	Admitter,
} from "./admitter.js";
import type { Fill, FillTable, FillWaiter } from "./fills.js";
import type { CopyJob, CopyListener, LocalCopier } from "./local-copier.js";
import type {
	Abortable,
	EntryStatus,
	FailureReason,
	Operation,
	OperationTable,
} from "./operations.js";

/** A block to deposit, checked. */
export interface DepositSource {
	readonly layout: readonly string[];
	/** Bytes of each piece, in layout order. */
	readonly bytes: readonly Uint8Array[];
}

/** What the work needs. */
export interface DepositParts {
	readonly cache: ManagedCache;
	readonly fills: FillTable;
	readonly admitter: Admitter;
	readonly copier: LocalCopier;
	readonly operations: OperationTable;
}

export class DepositWork
	implements AdmissionListener, FillWaiter, CopyListener, Abortable
{
	readonly #parts: DepositParts;
	readonly #operation: Operation;
	readonly #blocks: readonly DepositSource[];
	readonly #noEvict: boolean;
	readonly #deadline: number;
	readonly #tickets = new Map<number, CapacityTicket>();
	readonly #fills = new Map<number, Fill>();
	readonly #copies = new Map<number, CopyJob>();
	/** Given up while their copy goes on for others. */
	readonly #aborted = new Set<number>();
	/** Wait for what somebody else brings in. */
	readonly #joined = new Set<number>();
	/** Were left without by somebody else, and have had their own try since. */
	readonly #retried = new Set<number>();
	readonly #protect: ReadonlySet<string>;
	#reserved: CopyJob[] = [];

	/** @param blocks One per key of the operation. @param deadline Clock time until which capacity is awaited. */
	constructor(
		parts: DepositParts,
		operation: Operation,
		blocks: readonly DepositSource[],
		noEvict: boolean,
		deadline: number,
	) {
		this.#parts = parts;
		this.#operation = operation;
		this.#blocks = blocks;
		this.#noEvict = noEvict;
		this.#deadline = deadline;
		this.#protect = new Set(operation.keys.map((ref) => ref.text));
	}

	/** Starts. @throws what an admission throws; then no slot is taken. */
	start(): void {
		const { cache } = this.#parts;
		const missing: number[] = [];
		for (const [entry, ref] of this.#operation.keys.entries()) {
			const residency = cache.get(ref.text);
			if (residency !== undefined) this.#present(entry, residency);
			else missing.push(entry);
		}
		this.#admit(missing);
	}

	reserved(entry: number, residency: Residency, late: boolean): void {
		const { cache, fills, copier } = this.#parts;
		const fill = fills.begin(residency);
		this.#fills.set(entry, fill);
		fills.join(residency.keyText, this, entry);
		const job: CopyJob = {
			sources: this.#blocks[entry]?.bytes ?? [],
			targets: cache.bytesOf(residency),
			listener: this,
			entry,
			cancelled: false,
		};
		this.#copies.set(entry, job);
		if (late) copier.copy([job]);
		else this.#reserved.push(job);
	}

	known(entry: number, residency: Residency): void {
		this.#present(entry, residency);
	}

	refused(entry: number, status: EntryStatus, reason: FailureReason): void {
		this.#parts.operations.settle(this.#operation, entry, { status, reason });
	}

	copied(entry: number, ok: boolean): void {
		const fill = this.#fills.get(entry);
		this.#fills.delete(entry);
		this.#copies.delete(entry);
		if (fill === undefined) return;
		if (ok) this.#parts.fills.complete(fill);
		else this.#parts.fills.fail(fill, "transfer_failed");
	}

	filled(entry: number, residency: Residency): void {
		this.#joined.delete(entry);
		if (this.#aborted.has(entry)) this.refused(entry, "FAILED", "aborted");
		else this.#succeed(entry, residency);
	}

	fillFailed(entry: number, reason: FailureReason): void {
		if (!this.#joined.delete(entry) || !this.#tryAlone(entry, reason))
			this.refused(entry, "FAILED", reason);
	}

	abortEntry(entry: number): void {
		const { fills } = this.#parts;
		const ticket = this.#tickets.get(entry);
		this.#tickets.delete(entry);
		ticket?.cancel();
		const fill = this.#fills.get(entry);
		const copy = this.#copies.get(entry);
		if (fill !== undefined && copy !== undefined) {
			// The source bytes belong to the caller as soon as the entry ends: not before the copy for the others is made.
			if (fill.waiters.length > 1) {
				this.#aborted.add(entry);
				return;
			}
			copy.cancelled = true;
			this.#fills.delete(entry);
			this.#copies.delete(entry);
			this.#parts.fills.fail(fill, "aborted");
			return;
		}
		const text = this.#operation.keys[entry]?.text;
		this.#joined.delete(entry);
		if (text !== undefined) fills.leave(text, this, entry);
		this.refused(entry, "FAILED", "aborted");
	}

	#present(entry: number, residency: Residency): void {
		const layout = this.#blocks[entry]?.layout ?? [];
		if (residency.state === "DISCARDING") {
			this.refused(entry, "FAILED", "quarantined");
			return;
		}
		if (!sameLayout(residency.layout, layout)) {
			this.refused(entry, "FAILED", "layout_mismatch");
			return;
		}
		if (residency.state === "READY") this.#succeed(entry, residency);
		else if (this.#parts.fills.join(residency.keyText, this, entry))
			this.#joined.add(entry);
		else this.refused(entry, "FAILED", "quarantined");
	}

	/** Admits entries, and copies what has its slots at once. @throws what an admission throws. */
	#admit(entries: readonly number[]): void {
		const { admitter, copier } = this.#parts;
		admitter.admit(
			entries.flatMap((entry): AdmissionEntry[] => {
				const keyText = this.#operation.keys[entry]?.text;
				if (keyText === undefined) return [];
				return [{ entry, keyText, layout: this.#blocks[entry]?.layout ?? [] }];
			}),
			"deposit",
			this.#protect,
			this.#deadline,
			this,
			this.#tickets,
		);
		const copies = this.#reserved;
		this.#reserved = [];
		copier.copy(copies);
	}

	/**
	 * Somebody else did not bring the block in, but its bytes are here: once, unless the slots may still be written or the
	 * operation is over. False: the entry fails as what it waited for did.
	 */
	#tryAlone(entry: number, reason: FailureReason): boolean {
		const text = this.#operation.keys[entry]?.text;
		if (
			text === undefined ||
			reason === "closed" ||
			this.#retried.has(entry) ||
			this.#operation.results[entry] !== undefined
		)
			return false;
		const residency = this.#parts.cache.get(text);
		if (residency?.state === "DISCARDING") return false;
		this.#retried.add(entry);
		if (residency !== undefined) {
			// Another one that was left without was faster.
			this.#present(entry, residency);
			return true;
		}
		try {
			this.#admit([entry]);
			return true;
		} catch {
			// Everybody else who was left without has to be told, too.
			return false;
		}
	}

	#succeed(entry: number, residency: Residency): void {
		const { cache, operations } = this.#parts;
		// A block that is deposited again is wanted here, whatever a move has promised.
		cache.cancelRetire(residency);
		cache.touch(residency);
		if (!this.#noEvict) {
			operations.settle(this.#operation, entry, { status: "SUCCESS" });
			return;
		}
		cache.claim(residency);
		const releaseHandle = cache.issueHandle([residency]);
		if (
			!operations.settle(this.#operation, entry, {
				status: "SUCCESS",
				releaseHandle,
			})
		)
			cache.releaseHandle(releaseHandle);
	}
}
