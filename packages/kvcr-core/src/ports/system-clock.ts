/**
 * The default clock. Nearly every timer here is a deadline that never comes: armed with each operation and cancelled with
 * its end, within a fraction of a millisecond. One Node timer stands for all of them; it stays armed when the deadline it
 * was armed for is cancelled, and looks again when it fires.
 */
import { AsyncResource } from "node:async_hooks";
import type { Clock, Timer } from "./clock.js";
import { DeadlineHeap } from "./deadline-heap.js";

/** Longest delay Node's timers take, in milliseconds. */
const MAX_DELAY_MS = 0x7fff_ffff;

/** A Node timer comes early by less than this, in milliseconds. One that comes earlier is a fake one: its time has come. */
const EARLY_MS = 50;

class DeadlineTimer {
	readonly #deadlines = new DeadlineHeap();
	#timer: NodeJS.Timeout | undefined;
	#armedBy: typeof setTimeout | undefined;
	/** When the timer fires. */
	#wakeAt = Number.POSITIVE_INFINITY;
	readonly #fire = () => this.#runDue();

	schedule(delayMs: number, callback: () => void): Timer {
		const now = performance.now();
		// Also for what is no number.
		const at = now + Math.max(0, delayMs || 0);
		// The Node timer has the context of whoever armed it, and a callback that of its own request.
		const context = new AsyncResource("KvcrDeadline");
		const deadline = this.#deadlines.add(at, () =>
			context.runInAsyncScope(callback),
		);
		// A test may have put fake timers in place of Node's, or taken them away again with all that were armed.
		if (at < this.#wakeAt || setTimeout !== this.#armedBy) this.#arm(at);
		return deadline;
	}

	/** Arms the Node timer for a time, or for what is due before it. */
	#arm(time: number): void {
		const at = Math.min(time, this.#deadlines.first?.at ?? time);
		clearTimeout(this.#timer);
		const delayMs = Math.ceil(at - performance.now());
		this.#wakeAt = at;
		this.#armedBy = setTimeout;
		this.#timer = setTimeout(
			this.#fire,
			Math.min(Math.max(1, delayMs), MAX_DELAY_MS),
		);
		this.#timer.unref();
	}

	/** Runs what is due. What its callbacks arm waits for the next time, so that this ends. */
	#runDue(): void {
		const real = performance.now();
		const now = real < this.#wakeAt - EARLY_MS ? this.#wakeAt : real;
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
