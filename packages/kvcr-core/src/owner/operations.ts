/** Operations of the owner: one handle per call, one result per key, exactly one completion. */
import type { MemoryRegion, OpHandle, ReleaseHandle } from "../ports/index.js";
import type { HandleSequence } from "../transfer/handles.js";
import type { KeyRef } from "./key-ref.js";

/** How one key of an operation ended. */
export type EntryStatus = "SUCCESS" | "DROPPED" | "FAILED";

/** Why an entry failed. The set is fixed. */
export type FailureReason =
	/** The policy declined the block (`DROPPED`). */
	| "policy"
	/** The policy threw. */
	| "policy_error"
	/** No slots, and none came in time. */
	| "no_capacity"
	/** More slots than the pools have in all. */
	| "too_large"
	/** The block is here, or there, in another layout. */
	| "layout_mismatch"
	/** Neither here nor named by advice of the request. */
	| "no_source"
	/** The source does not have it. */
	| "not_at_source"
	/** An earlier fill of this block may still write into its slots. */
	| "quarantined"
	| "timeout"
	| "peer_unreachable"
	| "transfer_failed"
	/** The bytes that arrived do not have the checksum the source gave. */
	| "integrity_failed"
	/** The destination memory may still be written: it must not be reused yet. */
	| "uncertain"
	| "aborted"
	| "closed";

/** One piece of a block in managed memory, valid until the entry's release handle is released. */
export interface ManagedPiece {
	/** Label of its pool. */
	readonly label: string;
	/** Region of the pool's memory. */
	readonly region: MemoryRegion;
	/** Index of the slot. */
	readonly element: number;
}

/** The end of one key. */
export interface EntryResult {
	/** The key as it was passed. */
	readonly key: Uint8Array;
	/** How it ended. */
	readonly status: EntryStatus;
	/** Present unless `SUCCESS`. */
	readonly reason?: FailureReason;
	/** `fetch` only: where the bytes are, in layout order. */
	readonly pieces?: readonly ManagedPiece[];
	/** `fetch`, and `deposit` with `noEvict`: ends the claim. */
	readonly releaseHandle?: ReleaseHandle;
}

/** A completed operation: its entries in the order of the call's keys. */
export interface OperationResult {
	/** What the call returned. */
	readonly handle: OpHandle;
	/** Which call it was. */
	readonly kind: OperationKind;
	/** One per distinct key. */
	readonly entries: readonly EntryResult[];
}

/** Calls that lead to an operation. */
export type OperationKind = "fetch" | "deposit" | "deliver";

/** Told when its operation is aborted, in whole or for some entries. */
export interface Abortable {
	abortEntry(index: number): void;
}

/** An operation that is not completed yet. */
export interface Operation {
	readonly handle: OpHandle;
	readonly kind: OperationKind;
	readonly keys: readonly KeyRef[];
	readonly results: (EntryResult | undefined)[];
	pending: number;
	work: Abortable | undefined;
}

/** Keeps operations until their last entry has ended, then hands them out once. */
export class OperationTable {
	readonly #handles: HandleSequence;
	readonly #onCompleted: () => void;
	readonly #open = new Map<OpHandle, Operation>();
	#completed: OperationResult[] = [];

	/** @param onCompleted Called when there is something to collect. */
	constructor(handles: HandleSequence, onCompleted: () => void) {
		this.#handles = handles;
		this.#onCompleted = onCompleted;
	}

	/** Operations that are not completed. */
	get size(): number {
		return this.#open.size;
	}

	/** Operations that are completed and not collected. */
	get uncollected(): number {
		return this.#completed.length;
	}

	/** Opens an operation. Without keys it completes at once. */
	begin(kind: OperationKind, keys: readonly KeyRef[]): Operation {
		const operation: Operation = {
			handle: this.#handles.operation(),
			kind,
			keys,
			results: new Array<EntryResult | undefined>(keys.length).fill(undefined),
			pending: keys.length,
			work: undefined,
		};
		this.#open.set(operation.handle, operation);
		if (keys.length === 0) this.#complete(operation);
		return operation;
	}

	get(handle: OpHandle): Operation | undefined {
		return this.#open.get(handle);
	}

	/** Ends one entry. False when it had ended before: a late result never revives a failed call. */
	settle(
		operation: Operation,
		index: number,
		result: Omit<EntryResult, "key">,
	): boolean {
		if (operation.results[index] !== undefined) return false;
		const ref = operation.keys[index];
		if (ref === undefined) return false;
		operation.results[index] = { key: ref.key, ...result };
		operation.pending -= 1;
		if (operation.pending === 0) this.#complete(operation);
		return true;
	}

	/** Forgets an operation whose call failed after all: nothing of it completes. */
	withdraw(operation: Operation): void {
		this.#open.delete(operation.handle);
		for (const [index, ref] of operation.keys.entries())
			operation.results[index] ??= { key: ref.key, status: "FAILED" };
	}

	/** Fails every entry that is still open. */
	failAll(reason: FailureReason): void {
		for (const operation of [...this.#open.values()]) {
			for (let index = 0; index < operation.keys.length; index += 1) {
				this.settle(operation, index, { status: "FAILED", reason });
			}
		}
	}

	/** Hands out what has completed. */
	takeCompleted(): readonly OperationResult[] {
		const completed = this.#completed;
		this.#completed = [];
		return completed;
	}

	#complete(operation: Operation): void {
		this.#open.delete(operation.handle);
		operation.work = undefined;
		this.#completed.push({
			handle: operation.handle,
			kind: operation.kind,
			entries: operation.results as EntryResult[],
		});
		this.#onCompleted();
	}
}
