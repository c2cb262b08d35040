/** Part of the eviction queue: the evictable blocks that use the same set of pools. */
import { RecordList } from "./record-list.js";
import { Queued, type ResidencyRecord } from "./residency.js";

/** How far from the end of the run a record may be inserted before the heap is the better place. */
const MAX_RUN_STEPS = 8;

/**
 * Records in the order of their scores; equal scores in the order in which they came.
 *
 * Two structures share the work. Scores that come in rising order, as those of LRU do, extend a sorted linked run: every
 * operation is O(1). Others go to a binary heap: O(log n). The next record is the smaller of the two heads.
 */
export class EvictionLane {
	readonly #run = new RecordList();
	readonly #heap: ResidencyRecord[] = [];
	/** Cursor of the walk in progress, and the heap records it has taken out. */
	#cursor: ResidencyRecord | undefined;
	readonly #aside: ResidencyRecord[] = [];

	/** Number of records. */
	get size(): number {
		return this.#run.size + this.#heap.length + this.#aside.length;
	}

	/** Adds a record that is in no lane, has its score and is the latest in sequence. */
	insert(record: ResidencyRecord): void {
		const { score } = record;
		let after = this.#run.tail;
		for (
			let step = 0;
			after !== undefined && after.score > score;
			after = after.previous
		) {
			if (++step > MAX_RUN_STEPS) {
				this.#push(record);
				return;
			}
		}
		record.queued = Queued.Run;
		this.#run.insertAfter(record, after);
	}

	/** Removes a record that is in the lane. Not during a walk. */
	remove(record: ResidencyRecord): void {
		if (record.queued === Queued.Run) this.#run.remove(record);
		else this.#cut(record.heapIndex);
		record.queued = Queued.No;
	}

	/** Starts a walk from the lowest score. Until {@link endWalk} nothing may be inserted or removed. */
	startWalk(): void {
		this.#cursor = this.#run.head;
	}

	/** The next record of the walk. */
	peek(): ResidencyRecord | undefined {
		const fromRun = this.#cursor;
		const fromHeap = this.#heap[0];
		if (fromHeap === undefined) return fromRun;
		return fromRun === undefined || goesFirst(fromHeap, fromRun)
			? fromHeap
			: fromRun;
	}

	/** Passes over the record that {@link peek} returned. It stays in the lane. */
	advance(): void {
		const record = this.peek();
		if (record === undefined) return;
		if (record === this.#cursor) {
			this.#cursor = record.next;
		} else {
			this.#cut(0);
			this.#aside.push(record);
		}
	}

	/** Ends the walk: every record is where it was. */
	endWalk(): void {
		this.#cursor = undefined;
		for (const record of this.#aside) this.#push(record);
		this.#aside.length = 0;
	}

	/** All records in no particular order, for checks. */
	toArray(): ResidencyRecord[] {
		const all = [...this.#heap];
		for (let r = this.#run.head; r !== undefined; r = r.next) all.push(r);
		return all;
	}

	#push(record: ResidencyRecord): void {
		record.queued = Queued.Heap;
		this.#heap.push(record);
		this.#up(this.#heap.length - 1, record);
	}

	/** Takes the record at an index out of the heap. */
	#cut(index: number): void {
		const heap = this.#heap;
		const removed = heap[index] as ResidencyRecord;
		const last = heap.pop() as ResidencyRecord;
		removed.heapIndex = -1;
		if (removed === last) return;
		if (goesFirst(last, removed)) this.#up(index, last);
		else this.#down(index, last);
	}

	#up(from: number, record: ResidencyRecord): void {
		const heap = this.#heap;
		let index = from;
		while (index > 0) {
			const parentIndex = (index - 1) >> 1;
			const parent = heap[parentIndex] as ResidencyRecord;
			if (!goesFirst(record, parent)) break;
			heap[index] = parent;
			parent.heapIndex = index;
			index = parentIndex;
		}
		heap[index] = record;
		record.heapIndex = index;
	}

	#down(from: number, record: ResidencyRecord): void {
		const heap = this.#heap;
		let index = from;
		for (;;) {
			let childIndex = 2 * index + 1;
			let child = heap[childIndex];
			if (child === undefined) break;
			const right = heap[childIndex + 1];
			if (right !== undefined && goesFirst(right, child)) {
				child = right;
				childIndex += 1;
			}
			if (!goesFirst(child, record)) break;
			heap[index] = child;
			child.heapIndex = index;
			index = childIndex;
		}
		heap[index] = record;
		record.heapIndex = index;
	}
}

/** The one order of eviction. */
export function goesFirst(a: ResidencyRecord, b: ResidencyRecord): boolean {
	return a.score < b.score || (a.score === b.score && a.sequence < b.sequence);
}
