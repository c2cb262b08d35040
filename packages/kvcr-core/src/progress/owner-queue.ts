/**
 * What progress hands to the owner. Progress never runs owner-visible work itself: it queues a task here and calls the
 * wake listeners; the owner runs the tasks inside its next API call or `pollCompleted()`.
 */
import { callOut } from "../ports/foreign.js";

/** Tasks for the owner, in order, and the listeners that tell it to come. */
export class OwnerQueue {
	#tasks: (() => void)[] = [];
	#draining = false;
	readonly #listeners = new Set<() => void>();
	readonly #onListenerError: (error: unknown) => void;

	/** @param onListenerError Told what a wake listener threw: progress goes on. */
	constructor(onListenerError: (error: unknown) => void = () => {}) {
		this.#onListenerError = onListenerError;
	}

	/** Number of tasks waiting. */
	get size(): number {
		return this.#tasks.length;
	}

	/** True while tasks run: a drain within one of them does nothing. */
	get draining(): boolean {
		return this.#draining;
	}

	/** Queues a task and wakes the owner. */
	enqueue(task: () => void): void {
		this.#tasks.push(task);
		this.wake();
	}

	/** Tells the owner that a poll would find something. Listeners must not call back into the instance synchronously. */
	wake(): void {
		for (const listener of this.#listeners)
			callOut(listener, this.#onListenerError);
	}

	/** Adds a wake listener; the returned function removes it. */
	onWake(listener: () => void): () => void {
		this.#listeners.add(listener);
		return () => {
			this.#listeners.delete(listener);
		};
	}

	/**
	 * Runs every waiting task, also those queued by tasks meanwhile. A task that throws ends the call with its error; the
	 * tasks after it stay queued for the next call. Nested calls do nothing: the outer one finishes the work.
	 */
	drain(): void {
		if (this.#draining) return;
		this.#draining = true;
		let done = 0;
		let batch: (() => void)[] = [];
		try {
			while (this.#tasks.length > 0) {
				batch = this.#tasks;
				this.#tasks = [];
				done = 0;
				for (const task of batch) {
					done += 1;
					task();
				}
			}
		} catch (error) {
			this.#tasks = batch.slice(done).concat(this.#tasks);
			throw error;
		} finally {
			this.#draining = false;
		}
	}
}
