/** Whether progress can go on. An error that ends it is kept and shown to every later caller; closing still works. */
import type { Clock, Timer } from "../ports/index.js";
import { KvcrError, reasonOf } from "../ports/index.js";

/** Progress has failed for good: the instance can only be closed. `cause` says why. */
export class ProgressFailedError extends KvcrError {
	/** `cause` is what ended progress. */
	constructor(cause: unknown) {
		super(
			"ERR_KVCR_PROGRESS_FAILED",
			`progress failed and the instance can only be closed: ${reasonOf(cause)}`,
			{ cause },
		);
	}
}

export class Health {
	#failure: ProgressFailedError | undefined;
	readonly #onFailure: (failure: ProgressFailedError) => void;

	/** @param onFailure Told once. */
	constructor(onFailure: (failure: ProgressFailedError) => void) {
		this.#onFailure = onFailure;
	}

	get failure(): ProgressFailedError | undefined {
		return this.#failure;
	}

	/** Records the first fatal error. */
	fail(error: unknown): ProgressFailedError {
		if (this.#failure === undefined) {
			this.#failure =
				error instanceof ProgressFailedError
					? error
					: new ProgressFailedError(error);
			this.#onFailure(this.#failure);
		}
		return this.#failure;
	}

	/** @throws ProgressFailedError once progress has failed. */
	check(): void {
		if (this.#failure !== undefined) throw this.#failure;
	}

	/** Runs work that has no caller to throw to: what it throws ends progress instead of the process. */
	guard(work: () => void): void {
		try {
			work();
		} catch (error) {
			this.fail(error);
		}
	}

	/** Runs work that must not fail: what it throws ends progress and reaches the caller as `ProgressFailedError`. */
	require<T>(work: () => T): T {
		try {
			return work();
		} catch (error) {
			throw this.fail(error);
		}
	}

	/** The same clock, with timers that cannot throw out of the event loop. */
	guardClock(clock: Clock): Clock {
		return {
			now: () => clock.now(),
			schedule: (delayMs: number, callback: () => void): Timer =>
				clock.schedule(delayMs, () => this.guard(callback)),
		};
	}
}
