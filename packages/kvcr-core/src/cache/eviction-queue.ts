/**
 * Evictable records in the order of their scores; equal scores in the order in which they came.
 *
 * Two structures share the work. Scores that come in rising order, as those of LRU do, extend a sorted linked run: every
 * operation is O(1). Others go to a binary heap: O(log n). The next record is the smaller of the two heads.
 */
import { RecordList } from "./record-list.js";
import { Queued, type ResidencyRecord } from "./residency.js";

/** How far from the end of the run a record may be inserted before the heap is the better place. */
const MAX_RUN_STEPS = 8;

export class EvictionQueue {
	readonly #run = new RecordList();
	readonly #heap: ResidencyRecord[] = [];
	#sequence = 0;
	/** Cursor of the walk in progress, and the heap records it has taken out. */
	#cursor: ResidencyRecord | undefined;
	readonly #aside: ResidencyRecord[] = [];

	/** Number of records. */
	get size(): number {
		return this.#run.size + this.#heap.length + this.#aside.length;
	}

	/** Adds a record that is in no queue. */
	insert(record: ResidencyRecord, score: number): void {
		record.score = score;
		record.sequence = ++this.#sequence;
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

	/** Removes a record that is in the queue. Not during a walk. */
	remove(record: ResidencyRecord): void {
		if (record.queued === Queued.Run) this.#run.remove(record);
		else this.#cut(record.heapIndex);
		record.queued = Queued.No;
	}

	/** Starts a walk from the lowest score. Until {@link endWalk} nothing may be inserted or removed. */
	startWalk(): void {
		this.#cursor = this.#run.head;
	}

	/** The next record of the walk. It stays in the queue. */
	step(): ResidencyRecord | undefined {
		const fromRun = this.#cursor;
		const fromHeap = this.#heap[0];
		if (
			fromHeap !== undefined &&
			(fromRun === undefined || goesFirst(fromHeap, fromRun))
		) {
			this.#cut(0);
			this.#aside.push(fromHeap);
			return fromHeap;
		}
		this.#cursor = fromRun?.next;
		return fromRun;
	}

	/** Ends the walk: every record is where it was. */
	endWalk(): void {
		this.#cursor = undefined;
		for (const record of this.#aside) this.#push(record);
		this.#aside.length = 0;
	}

	/** All records in order of eviction, for checks. */
	toArray(): ResidencyRecord[] {
		const all = [...this.#heap];
		for (let r = this.#run.head; r !== undefined; r = r.next) all.push(r);
		return all.sort((a, b) => (goesFirst(a, b) ? -1 : 1));
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

function goesFirst(a: ResidencyRecord, b: ResidencyRecord): boolean {
	return a.score < b.score || (a.score === b.score && a.sequence < b.sequence);
}
