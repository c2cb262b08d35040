/**
 * The state lock: while the owner holds it, progress changes nothing the owner could see. Progress never waits for it;
 * what needs the lock goes to the owner's queue instead.
 */
import type { OwnerQueue } from "./owner-queue.js";

/** One hold of the state lock. */
export interface StateLockHold {
	/** Ends the hold. Ending it twice does nothing. */
	release(): void;
}

/** Counts the owner's holds. */
export class StateLock {
	#holds = 0;
	readonly #owner: OwnerQueue;

	constructor(owner: OwnerQueue) {
		this.#owner = owner;
	}

	/** True while at least one hold exists. */
	get held(): boolean {
		return this.#holds > 0;
	}

	/** Takes the lock; holds nest. */
	hold(): StateLockHold {
		this.#holds += 1;
		let held = true;
		return {
			release: () => {
				if (!held) return;
				held = false;
				this.#holds -= 1;
				if (this.#holds === 0 && this.#owner.size > 0) this.#owner.wake();
			},
		};
	}

	/** Runs `task` now when nobody holds the lock, otherwise in the owner's next turn. */
	whenFree(task: () => void): void {
		if (this.held) this.#owner.enqueue(task);
		else task();
	}
}
