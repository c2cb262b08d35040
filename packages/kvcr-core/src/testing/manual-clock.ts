/** Time that moves only when a test says so. */
import type { Clock, Timer } from "../ports/clock.js";

/** Most timers one call may run: a timer that re-arms itself without delay fails a test instead of hanging it. */
const MAX_RUNS = 1_000_000;

interface Armed {
	readonly at: number;
	readonly order: number;
	readonly callback: () => void;
}

/** A {@link Clock} under a test's control. Timers run by due time; among equals, the one armed first runs first. */
export class ManualClock implements Clock {
	#now: number;
	#order = 0;
	/** Binary heap by due time, then by order of arming. Cancelled entries stay until they surface. */
	readonly #heap: Armed[] = [];
	readonly #live = new Set<Armed>();

	/** @param start first value of `now()`, in milliseconds; default 0 */
	constructor(start = 0) {
		this.#now = start;
	}

	now(): number {
		return this.#now;
	}

	schedule(delayMs: number, callback: () => void): Timer {
		const armed: Armed = {
			at: this.#now + Math.max(0, delayMs),
			order: this.#order++,
			callback,
		};
		this.#live.add(armed);
		this.#push(armed);
		return { cancel: () => void this.#live.delete(armed) };
	}

	/** Number of armed timers. */
	get pending(): number {
		return this.#live.size;
	}

	/** Due time of the next timer in milliseconds, `undefined` when none is armed. */
	get nextAt(): number | undefined {
		return this.#peek()?.at;
	}

	/**
	 * Moves time forward by `ms`, running every timer that falls due on the way at its own due time, also those armed meanwhile.
	 * What a timer throws comes out here. Returns how many ran.
	 */
	advance(ms: number): number {
		const end = this.#now + ms;
		let ran = 0;
		for (;;) {
			const next = this.#peek();
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
		const next = this.#peek();
		if (next === undefined) return false;
		this.#pop();
		this.#live.delete(next);
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
			const next = this.#peek();
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

	#peek(): Armed | undefined {
		for (;;) {
			const top = this.#heap[0];
			if (top === undefined || this.#live.has(top)) return top;
			this.#pop();
		}
	}

	#push(armed: Armed): void {
		const heap = this.#heap;
		let at = heap.push(armed) - 1;
		while (at > 0) {
			const parent = (at - 1) >> 1;
			if (!before(armed, heap[parent] as Armed)) break;
			heap[at] = heap[parent] as Armed;
			at = parent;
		}
		heap[at] = armed;
	}

	#pop(): void {
		const heap = this.#heap;
		const last = heap.pop();
		if (last === undefined || heap.length === 0) return;
		let at = 0;
		for (;;) {
			let child = 2 * at + 1;
			if (child >= heap.length) break;
			if (
				child + 1 < heap.length &&
				before(heap[child + 1] as Armed, heap[child] as Armed)
			)
				child += 1;
			if (!before(heap[child] as Armed, last)) break;
			heap[at] = heap[child] as Armed;
			at = child;
		}
		heap[at] = last;
	}
}

function before(a: Armed, b: Armed): boolean {
	return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** Lets every promise callback that is ready run, and those they make ready. */
export function settle(): Promise<void> {
	return new Promise((resolve) => setImmediate(resolve));
}
