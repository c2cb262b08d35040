/** A `fetch` call: the work of making blocks resident, with a claim and a release handle per block. */
import type { ManagedCache, Residency } from "../cache/index.js";
import type { FetchSink, FetchWork } from "./fetch-work.js";
import type {
	Abortable,
	EntryStatus,
	FailureReason,
	Operation,
	OperationTable,
} from "./operations.js";

export class FetchOperation implements FetchSink, Abortable {
	readonly #cache: ManagedCache;
	readonly #operations: OperationTable;
	readonly #operation: Operation;
	work: FetchWork | undefined;

	constructor(
		cache: ManagedCache,
		operations: OperationTable,
		operation: Operation,
	) {
		this.#cache = cache;
		this.#operations = operations;
		this.#operation = operation;
	}

	ready(entry: number, residency: Residency): void {
		// An aborted entry takes no claim.
		if (this.#operation.results[entry] !== undefined) return;
		this.#cache.claim(residency);
		const releaseHandle = this.#cache.issueHandle([residency]);
		const pieces = this.#cache
			.pieces(residency)
			.map(({ label, region, slot }) => ({ label, region, element: slot }));
		this.#operations.settle(this.#operation, entry, {
			status: "SUCCESS",
			pieces,
			releaseHandle,
		});
	}

	failed(entry: number, status: EntryStatus, reason: FailureReason): void {
		this.#operations.settle(this.#operation, entry, { status, reason });
	}

	abortEntry(entry: number): void {
		// Settled first, so that a fill that ends because of this finds nobody to tell.
		this.failed(entry, "FAILED", "aborted");
		this.work?.abandon(entry);
	}
}
