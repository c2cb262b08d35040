/** Time that moves only when a test says so. */
import type { Clock, Timer } from "../ports/clock.js";
import { DeadlineHeap } from "../ports/deadline-heap.js";

/** Most timers one call may run: a timer that re-arms itself without delay fails a test instead of hanging it. */
const MAX_RUNS = 1_000_000;

/** A {@link Clock} under a test's control. Timers run by due time; among equals, the one armed first runs first. */
export class ManualClock implements Clock {
	#now: number;
	readonly #deadlines = new DeadlineHeap();

	/** @param start first value of `now()`, in milliseconds; default 0 */
	constructor(start = 0) {
		this.#now = start;
	}

	now(): number {
		return this.#now;
	}

	schedule(delayMs: number, callback: () => void): Timer {
		return this.#deadlines.add(this.#now + Math.max(0, delayMs), callback);
	}

	/** Number of armed timers. */
	get pending(): number {
		return this.#deadlines.size;
	}

	/** Due time of the next timer in milliseconds, `undefined` when none is armed. */
	get nextAt(): number | undefined {
		return this.#deadlines.first?.at;
	}

	/**
	 * Moves time forward by `ms`, running every timer that falls due on the way at its own due time, also those armed meanwhile.
	 * What a timer throws comes out here. Returns how many ran.
	 */
	advance(ms: number): number {
		const end = this.#now + ms;
		let ran = 0;
		for (;;) {
			const next = this.#deadlines.first;
			if (next === undefined || next.at > end) break;
			this.runNext();
			if (++ran > MAX_RUNS)
				throw new Error(
					`ManualClock.advance: more than ${MAX_RUNS} timers in ${ms} ms`,
				);
		}
		this.#now = Math.max(this.#now, end);
		return ran;
	}

	/** Moves time to the next timer and runs it. False when none is armed. */
	runNext(): boolean {
		const next = this.#deadlines.first;
		if (next === undefined) return false;
		next.cancel();
		this.#now = Math.max(this.#now, next.at);
		next.callback();
		return true;
	}

	/**
	 * Like {@link advance}, but lets promise callbacks run after every timer, so that code which awaits between timers keeps up.
	 */
	async advanceAsync(ms: number): Promise<number> {
		const end = this.#now + ms;
		let ran = 0;
		await settle();
		for (;;) {
			const next = this.#deadlines.first;
			if (next === undefined || next.at > end) break;
			this.runNext();
			await settle();
			if (++ran > MAX_RUNS)
				throw new Error(
					`ManualClock.advanceAsync: more than ${MAX_RUNS} timers in ${ms} ms`,
				);
		}
		this.#now = Math.max(this.#now, end);
		return ran;
	}
}

/** Lets every promise callback that is ready run, and those they make ready. */
export function settle(): Promise<void> {
	return new Promise((resolve) => setImmediate(resolve));
}
