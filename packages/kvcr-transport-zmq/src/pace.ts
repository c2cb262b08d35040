/**
 * How fast a channel reads: half a millisecond of each turn of the event loop, and no more than a little of what its owner
 * has no use for. What is not read stays with its sender, whose own queue then fills up; and libzmq takes connections in
 * turn, so that somebody else is behind at most one message of each of them as soon as reading goes on.
 */

/** Time for messages before the event loop gets a turn, in milliseconds. */
const TURN_MS = 0.5;

/** Messages beyond their sender's due that end a turn: as many as that of everybody else have been read by then. */
const MOST_EXCESS = 2;

/** How long nothing is read after a turn in which there were any, in milliseconds. */
const REST_MS = 1;

/** What to do after a message: read the next one, let the event loop have a turn, or rest so many milliseconds. */
export type Step = "read" | "turn" | number;

/** See the file comment. */
export class Pace {
	readonly #now: () => number;
	#turnStartedAt: number;
	#excess = 0;

	/** @param now a clock in milliseconds */
	constructor(now: () => number) {
		this.#now = now;
		this.#turnStartedAt = now();
	}

	/** The message just read was more than its sender's due. */
	excess(): void {
		this.#excess += 1;
	}

	/** What comes after a message. */
	next(): Step {
		if (
			this.#excess < MOST_EXCESS &&
			this.#now() - this.#turnStartedAt < TURN_MS
		)
			return "read";
		return this.#excess > 0 ? REST_MS : "turn";
	}

	/** A turn begins. */
	begin(): void {
		this.#excess = 0;
		this.#turnStartedAt = this.#now();
	}
}
