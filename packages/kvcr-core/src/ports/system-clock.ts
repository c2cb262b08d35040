/**
 * The default clock. Nearly every timer here is a deadline that never comes: armed with each operation and cancelled with
 * its end, within a fraction of a millisecond. One Node timer stands for all of them; it stays armed when the deadline it
 * was armed for is cancelled, and looks again when it fires.
 */
import type { Clock, Timer } from "./clock.js";
import { DeadlineHeap } from "./deadline-heap.js";

/** Longest delay Node's timers take, in milliseconds. */
const MAX_DELAY_MS = 0x7fff_ffff;

class DeadlineTimer {
	readonly #deadlines = new DeadlineHeap();
	#timer: NodeJS.Timeout | undefined;
	/** When the timer fires. */
	#wakeAt = Number.POSITIVE_INFINITY;
	readonly #fire = () => this.#runDue();

	schedule(delayMs: number, callback: () => void): Timer {
		// Also for what is no number.
		const at = performance.now() + Math.max(0, delayMs || 0);
		const deadline = this.#deadlines.add(at, callback);
		if (at < this.#wakeAt) this.#arm(at);
		return deadline;
	}

	#arm(at: number): void {
		clearTimeout(this.#timer);
		const delayMs = Math.ceil(at - performance.now());
		this.#wakeAt = at;
		this.#timer = setTimeout(
			this.#fire,
			Math.min(Math.max(1, delayMs), MAX_DELAY_MS),
		);
		this.#timer.unref();
	}

	/** Runs what is due. What its callbacks arm waits for the next time, so that this ends. */
	#runDue(): void {
		const now = performance.now();
		const { armed } = this.#deadlines;
		this.#wakeAt = Number.POSITIVE_INFINITY;
		try {
			for (;;) {
				const next = this.#deadlines.first;
				if (next === undefined || next.at > now || next.order >= armed) break;
				this.#deadlines.remove(next);
				next.callback();
			}
		} finally {
			// Also after a callback that threw: the others keep their deadlines.
			const next = this.#deadlines.first;
			if (next !== undefined && next.at < this.#wakeAt) this.#arm(next.at);
		}
	}
}

const timer = new DeadlineTimer();

/** The default clock: `performance.now()`, and timers that do not keep the process alive. */
export const systemClock: Clock = {
	now: () => performance.now(),
	schedule: (delayMs, callback) => timer.schedule(delayMs, callback),
};
