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
