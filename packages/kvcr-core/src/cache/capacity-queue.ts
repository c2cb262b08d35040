/** Admissions that wait for slots: first come, first served per pool, until a deadline. */
import type { Clock, Timer } from "../ports/index.js";
import type { SlotPool } from "./slot-pool.js";

/** Somebody who waits for slots. Both methods are called on the owner's side only. */
export interface CapacityWaiter {
	/**
	 * Tries the admission again. Returns what is still missing (pool name to slots), or `undefined` when the waiter needs
	 * no more, whatever came of it.
	 */
	retry(): ReadonlyMap<string, number> | undefined;
	/** The waiter was removed without success: its deadline passed, the cache closed, or `retry` threw. Called at most once. */
	expire(reason: "deadline" | "closed" | "failed"): void;
}

/** A place in the queue. */
export interface CapacityTicket {
	/** Leaves the queue without a call to `expire`. Cancelling twice, or after the end of the wait, does nothing. */
	cancel(): void;
}

interface Entry extends CapacityTicket {
	readonly waiter: CapacityWaiter;
	readonly deadline: number;
	missing: ReadonlyMap<string, number>;
	waiting: boolean;
}

/**
 * The queue. A waiter that is short of a pool keeps later comers, new admissions included, from slots of that pool:
 * small requests cannot starve a large one. Waiters for other pools pass.
 */
export class CapacityQueue {
	readonly #clock: Clock;
	readonly #pools: readonly SlotPool[];
	readonly #onDue: () => void;
	/** In order of arrival; those who left stay until the next compaction. */
	#entries: Entry[] = [];
	#size = 0;
	/** Per pool: waiters that come before whoever asks {@link blocked} now. */
	readonly #ahead: Int32Array;
	#timer: Timer | undefined;
	#timerAt = Number.POSITIVE_INFINITY;
	/** Something happened that {@link serve} must look at: slots became available, or the timer fired. */
	#grew = false;
	#fired = false;
	#serving = false;

	/** @param onDue Called when a deadline passed, so that somebody calls {@link serve}. */
	constructor(pools: readonly SlotPool[], clock: Clock, onDue: () => void) {
		this.#pools = pools;
		this.#clock = clock;
		this.#onDue = onDue;
		this.#ahead = new Int32Array(pools.length);
	}

	/** Number of waiters. */
	get size(): number {
		return this.#size;
	}

	/** True when {@link serve} has something to do. */
	get due(): boolean {
		if (this.#size === 0) return false;
		return this.#grew || this.#fired || this.#clock.now() >= this.#timerAt;
	}

	/** Whether somebody who came earlier waits for slots of this pool. */
	blocked(pool: SlotPool): boolean {
		return (this.#ahead[pool.index] as number) > 0;
	}

	/** Slots were freed or became reclaimable. True when somebody waits for such. */
	noteGrowth(): boolean {
		if (this.#size === 0) return false;
		this.#grew = true;
		return true;
	}

	/**
	 * Joins the queue.
	 * @param missing Slots the admission is short of, by pool name.
	 * @param deadline Clock time in milliseconds after which the waiter expires.
	 */
	add(
		waiter: CapacityWaiter,
		missing: ReadonlyMap<string, number>,
		deadline: number,
	): CapacityTicket {
		const entry: Entry = {
			waiter,
			deadline,
			missing,
			waiting: true,
			cancel: () => {
				if (!entry.waiting) return;
				this.#leave(entry);
				if (this.#serving) return;
				this.#count(entry, -1);
				// What the leaver held back may suffice for those behind it.
				if (this.noteGrowth()) this.#onDue();
				if (this.#entries.length > 2 * this.#size + 16) this.#compact();
			},
		};
		this.#entries.push(entry);
		this.#size += 1;
		if (!this.#serving) {
			this.#count(entry, 1);
			this.#arm(deadline);
		}
		return entry;
	}

	/** Expires waiters whose time is over, and lets the others try again in order if there is a chance. */
	serve(): void {
		if (this.#serving || !this.due) return;
		this.#serving = true;
		let retry = this.#grew;
		this.#grew = false;
		this.#fired = false;
		const now = this.#clock.now();
		const errors: unknown[] = [];
		this.#ahead.fill(0);
		try {
			// Waiters that join meanwhile are not served in this round: they have just tried.
			for (const entry of this.#entries.slice()) {
				// One that fails is not in the way of those behind it.
				try {
					if (entry.waiting && now >= entry.deadline) {
						this.#leave(entry);
						retry = true;
						entry.waiter.expire("deadline");
					}
					if (entry.waiting && retry && this.#hasChance(entry))
						this.#retry(entry);
				} catch (error) {
					errors.push(error);
				}
				if (entry.waiting) this.#count(entry, 1);
			}
		} finally {
			this.#serving = false;
			this.#compact();
		}
		if (errors.length > 0) throw errors[0];
	}

	/** Expires everybody and releases the timer. */
	close(): void {
		const entries = this.#entries;
		this.#entries = [];
		for (const entry of entries) {
			if (!entry.waiting) continue;
			this.#leave(entry);
			entry.waiter.expire("closed");
		}
		this.#compact();
	}

	#leave(entry: Entry): void {
		entry.waiting = false;
		this.#size -= 1;
	}

	#retry(entry: Entry): void {
		let missing: ReadonlyMap<string, number> | undefined;
		try {
			missing = entry.waiter.retry();
		} catch (error) {
			if (entry.waiting) {
				this.#leave(entry);
				entry.waiter.expire("failed");
			}
			throw error;
		}
		if (missing !== undefined && missing.size > 0) entry.missing = missing;
		else if (entry.waiting) this.#leave(entry);
	}

	/** A retry makes sense when a pool the waiter is short of has anything, and nobody before it waits for that pool. */
	#hasChance(entry: Entry): boolean {
		for (const pool of this.#pools) {
			if (
				entry.missing.has(pool.name) &&
				pool.available > 0 &&
				!this.blocked(pool)
			)
				return true;
		}
		return false;
	}

	#count(entry: Entry, change: 1 | -1): void {
		for (const { name, index } of this.#pools) {
			if (entry.missing.has(name))
				this.#ahead[index] = (this.#ahead[index] as number) + change;
		}
	}

	/** Drops those who left, counts who is ahead of a newcomer, and arms the timer for the earliest deadline. */
	#compact(): void {
		this.#entries = this.#entries.filter((entry) => entry.waiting);
		this.#ahead.fill(0);
		this.#timer?.cancel();
		this.#timer = undefined;
		this.#timerAt = Number.POSITIVE_INFINITY;
		let earliest = Number.POSITIVE_INFINITY;
		for (const entry of this.#entries) {
			this.#count(entry, 1);
			earliest = Math.min(earliest, entry.deadline);
		}
		if (earliest < Number.POSITIVE_INFINITY) this.#arm(earliest);
	}

	#arm(deadline: number): void {
		if (deadline >= this.#timerAt) return;
		this.#timer?.cancel();
		this.#timerAt = deadline;
		this.#timer = this.#clock.schedule(
			Math.max(0, deadline - this.#clock.now()),
			() => {
				this.#timer = undefined;
				this.#timerAt = Number.POSITIVE_INFINITY;
				this.#fired = true;
				this.#onDue();
			},
		);
	}
}
