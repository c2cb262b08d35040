/** Callbacks in the order they fall due. What both clocks keep their timers in. */
import type { Timer } from "./clock.js";

/** One callback that waits. Cancelling takes it out. */
export class Deadline implements Timer {
	readonly at: number;
	/** Number of its arming: among equals, the one armed first is due first. */
	readonly order: number;
	readonly callback: () => void;
	/** Its place in the heap; -1 once it is out. */
	index = -1;
	readonly #heap: DeadlineHeap;

	constructor(
		heap: DeadlineHeap,
		at: number,
		order: number,
		callback: () => void,
	) {
		this.#heap = heap;
		this.at = at;
		this.order = order;
		this.callback = callback;
	}

	cancel(): void {
		this.#heap.remove(this);
	}
}

/** A binary heap by due time, then by order of arming. Nothing that was cancelled stays in it. */
export class DeadlineHeap {
	readonly #heap: Deadline[] = [];
	#armed = 0;

	/** Callbacks that wait. */
	get size(): number {
		return this.#heap.length;
	}

	/** Callbacks added so far; the next one gets this number. */
	get armed(): number {
		return this.#armed;
	}

	/** The one that falls due first. */
	get first(): Deadline | undefined {
		return this.#heap[0];
	}

	/** Adds a callback due at a time. */
	add(at: number, callback: () => void): Deadline {
		const deadline = new Deadline(this, at, this.#armed++, callback);
		this.#rise(deadline, this.#heap.push(deadline) - 1);
		return deadline;
	}

	/** Takes one out; does nothing when it is out already. */
	remove(deadline: Deadline): void {
		const { index } = deadline;
		if (index < 0) return;
		deadline.index = -1;
		const last = this.#heap.pop() as Deadline;
		if (last === deadline) return;
		this.#rise(last, index);
		if (last.index === index) this.#sink(last, index);
	}

	/** Puts an entry at a place, or above it. */
	#rise(deadline: Deadline, from: number): void {
		let at = from;
		while (at > 0) {
			const parent = (at - 1) >> 1;
			const above = this.#heap[parent] as Deadline;
			if (!before(deadline, above)) break;
			this.#put(above, at);
			at = parent;
		}
		this.#put(deadline, at);
	}

	/** Puts an entry at a place, or below it. */
	#sink(deadline: Deadline, from: number): void {
		const heap = this.#heap;
		let at = from;
		for (;;) {
			let child = 2 * at + 1;
			if (child >= heap.length) break;
			if (
				child + 1 < heap.length &&
				before(heap[child + 1] as Deadline, heap[child] as Deadline)
			)
				child += 1;
			const below = heap[child] as Deadline;
			if (!before(below, deadline)) break;
			this.#put(below, at);
			at = child;
		}
		this.#put(deadline, at);
	}

	#put(deadline: Deadline, at: number): void {
		this.#heap[at] = deadline;
		deadline.index = at;
	}
}

function before(a: Deadline, b: Deadline): boolean {
	return a.at < b.at || (a.at === b.at && a.order < b.order);
}
