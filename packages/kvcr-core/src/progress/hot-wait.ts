/**
 * Keeps the event loop turning for a moment after something was sent to a peer. A process that sleeps until the answer comes
 * pays for being woken, and finds its caches cold; answers between peers that are well take a fraction of a millisecond. The
 * loop turns without holding anything up: sockets and timers are served in every turn. When the moment has passed, or
 * nothing is waited for any more, the process sleeps as ever.
 */

/** What it needs from its surroundings. */
export interface HotWaitOptions {
	/** How long to stay awake after the last message sent, in milliseconds; 0: not at all. */
	readonly windowMs: number;
	/** Whether anything is waited for. */
	readonly waiting: () => boolean;
	/** Milliseconds that pass by themselves, unlike those of a manual clock. @default performance.now */
	readonly now?: () => number;
	/** Runs a task in the next turn of the event loop. @default setImmediate */
	readonly nextTurn?: (task: () => void) => void;
}

export class HotWait {
	readonly #windowMs: number;
	readonly #waiting: () => boolean;
	readonly #now: () => number;
	readonly #nextTurn: (task: () => void) => void;
	/** When to sleep again. */
	#until = 0;
	#turning = false;
	readonly #turn = () => {
		if (this.#waiting() && this.#now() < this.#until)
			this.#nextTurn(this.#turn);
		else this.#turning = false;
	};

	constructor({
		windowMs,
		waiting,
		now = () => performance.now(),
		nextTurn = setImmediate,
	}: HotWaitOptions) {
		this.#windowMs = windowMs;
		this.#waiting = waiting;
		this.#now = now;
		this.#nextTurn = nextTurn;
	}

	/** Something was asked of a peer. */
	expect(): void {
		if (this.#windowMs === 0) return;
		this.#until = this.#now() + this.#windowMs;
		if (this.#turning) return;
		this.#turning = true;
		this.#nextTurn(this.#turn);
	}
}
