/** A doubly linked list through the records themselves: no node objects, every change O(1). */
import type { ResidencyRecord } from "./residency.js";

/** A record is in at most one list at a time. */
export class RecordList {
	#head: ResidencyRecord | undefined;
	#tail: ResidencyRecord | undefined;
	#size = 0;

	get head(): ResidencyRecord | undefined {
		return this.#head;
	}

	get tail(): ResidencyRecord | undefined {
		return this.#tail;
	}

	get size(): number {
		return this.#size;
	}

	/** Inserts a record that is in no list, behind `after`; at the head when that is `undefined`. */
	insertAfter(
		record: ResidencyRecord,
		after: ResidencyRecord | undefined,
	): void {
		const before = after === undefined ? this.#head : after.next;
		record.previous = after;
		record.next = before;
		if (after === undefined) this.#head = record;
		else after.next = record;
		if (before === undefined) this.#tail = record;
		else before.previous = record;
		this.#size += 1;
	}

	/** Takes a record of this list out. */
	remove(record: ResidencyRecord): void {
		const { previous, next } = record;
		if (previous === undefined) this.#head = next;
		else previous.next = next;
		if (next === undefined) this.#tail = previous;
		else next.previous = previous;
		record.previous = undefined;
		record.next = undefined;
		this.#size -= 1;
	}
}
