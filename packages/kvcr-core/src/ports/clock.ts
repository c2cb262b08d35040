/** Time as the core sees it. A test replaces it with the manual clock of `kvcr-core/testing`. */

/** Handle of one armed timer. Cancelling twice, or after it fired, does nothing. */
export interface Timer {
	/** Keeps it from firing. */
	cancel(): void;
}

/** Monotonic time and one-shot timers. */
export interface Clock {
	/** Milliseconds since an arbitrary start; never goes back; fractions allowed. */
	now(): number;
	/** Calls `callback` once, not before `delayMs` milliseconds have passed. A timer does not keep the process alive. */
	schedule(delayMs: number, callback: () => void): Timer;
}

/** Longest delay Node's timers take, in milliseconds. */
const MAX_DELAY_MS = 0x7fff_ffff;

/** The default clock: `performance.now()` and unreferenced Node timers. */
export const systemClock: Clock = {
	now: () => performance.now(),
	schedule(delayMs, callback) {
		const timer = setTimeout(
			callback,
			Math.min(Math.max(0, Math.ceil(delayMs)), MAX_DELAY_MS),
		);
		timer.unref();
		return { cancel: () => clearTimeout(timer) };
	},
};
