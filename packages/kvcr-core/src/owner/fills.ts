/**
 * Fills of managed blocks. A fill belongs to whoever started it and is shared by everyone who asks for the block meanwhile;
 * it ends once, and then every waiter hears of it.
 */
import type { ManagedCache, Residency } from "../cache/index.js";
import type { FailureReason } from "./operations.js";

/** Waits for fills, one entry per block. */
export interface FillWaiter {
	/** The block is ready. Called in the owner's turn; claims must be taken before returning. */
	filled(entry: number, residency: Residency): void;
	fillFailed(entry: number, reason: FailureReason): void;
}

/** One block on its way into managed memory. */
export interface Fill {
	readonly residency: Residency;
	readonly waiters: { readonly waiter: FillWaiter; readonly entry: number }[];
	/** Ends the work behind the fill when nobody waits for it any more. */
	readonly abandon: (() => void) | undefined;
	state: "running" | "discarding" | "ended";
}

export class FillTable {
	readonly #cache: ManagedCache;
	readonly #fills = new Map<string, Fill>();
	/** Told of every fill that begins, once it can be joined. */
	onBegin: ((residency: Residency) => void) | undefined;

	readonly #onReady: ((residency: Residency) => void) | undefined;

	/** @param onReady Told of every block that became ready. */
	constructor(cache: ManagedCache, onReady?: (residency: Residency) => void) {
		this.#cache = cache;
		this.#onReady = onReady;
	}

	/** Fills whose slots are not settled, quarantined ones included. */
	get size(): number {
		return this.#fills.size;
	}

	/** Starts to track a reserved residency. */
	begin(residency: Residency, abandon?: () => void): Fill {
		const fill: Fill = { residency, waiters: [], abandon, state: "running" };
		this.#fills.set(residency.keyText, fill);
		this.onBegin?.(residency);
		return fill;
	}

	/** Joins a running fill. False when there is none. */
	join(text: string, waiter: FillWaiter, entry: number): boolean {
		const fill = this.#fills.get(text);
		if (fill?.state !== "running") return false;
		fill.waiters.push({ waiter, entry });
		return true;
	}

	/** Takes a waiter back; the last one to leave ends the work behind the fill. */
	leave(text: string, waiter: FillWaiter, entry: number): void {
		const fill = this.#fills.get(text);
		if (fill === undefined) return;
		const at = fill.waiters.findIndex(
			(other) => other.waiter === waiter && other.entry === entry,
		);
		if (at < 0) return;
		fill.waiters.splice(at, 1);
		if (fill.waiters.length === 0 && fill.state === "running") fill.abandon?.();
	}

	/** The bytes are here. */
	complete(fill: Fill): void {
		if (fill.state !== "running") {
			this.#free(fill);
			return;
		}
		this.#end(fill);
		this.#cache.completeFill(fill.residency);
		try {
			this.#onReady?.(fill.residency);
			tell(fill, (waiter, entry) => waiter.filled(entry, fill.residency));
		} finally {
			this.#cache.unclaim(fill.residency);
		}
	}

	/** The bytes will not come, and the slots are safe. */
	fail(fill: Fill, reason: FailureReason): void {
		if (fill.state !== "running") {
			this.#free(fill);
			return;
		}
		this.#end(fill);
		this.#cache.failFill(fill.residency);
		tell(fill, (waiter, entry) => waiter.fillFailed(entry, reason));
	}

	/** Ends the filling of a residency for which nothing was begun that could write to it. */
	withdraw(residency: Residency): void {
		const fill = this.#fills.get(residency.keyText);
		if (fill?.residency === residency) this.fail(fill, "transfer_failed");
		else if (residency.state === "FILLING") this.#cache.failFill(residency);
	}

	/** The bytes will not come, but the slots may still be written: waiters fail, the slots stay quarantined. */
	discard(fill: Fill, reason: FailureReason): void {
		if (fill.state !== "running") return;
		fill.state = "discarding";
		this.#cache.discardFill(fill.residency);
		tell(fill, (waiter, entry) => waiter.fillFailed(entry, reason));
	}

	/** A discarded fill is proven quiescent. */
	#free(fill: Fill): void {
		if (fill.state !== "discarding") return;
		this.#end(fill);
		this.#cache.freeDiscarded(fill.residency);
	}

	#end(fill: Fill): void {
		fill.state = "ended";
		this.#fills.delete(fill.residency.keyText);
	}
}

/** Tells every waiter, also when one of them throws; then the first error comes out. */
function tell(
	fill: Fill,
	one: (waiter: FillWaiter, entry: number) => void,
): void {
	const errors: unknown[] = [];
	for (const { waiter, entry } of fill.waiters.splice(0)) {
		try {
			one(waiter, entry);
		} catch (error) {
			errors.push(error);
		}
	}
	if (errors.length > 0) throw errors[0];
}
