/** All residencies: their states, claims and slots. Calls no policy and no sink; it only says what happened. */
import { ClaimError } from "./errors.js";
import { EvictionQueue } from "./eviction-queue.js";
import type { Layout, LayoutTable } from "./layout.js";
import { RecordList } from "./record-list.js";
import {
	expectState,
	Queued,
	type ResidencyRecord,
	transition,
} from "./residency.js";

/** What the table tells about itself. Listeners only take notes: they must not change the table. */
export interface TableSignals {
	/** The bytes of a block are complete. */
	becameReady(record: ResidencyRecord): void;
	/** A ready block is gone. */
	left(record: ResidencyRecord): void;
	/** Slots became free or reclaimable. */
	grew(layout: Layout): void;
	/** Slots stopped being free or reclaimable. */
	shrank(layout: Layout): void;
}

/** Keeps records by key, and every slot in exactly one place. */
export class ResidencyTable {
	readonly queue = new EvictionQueue();
	readonly counts = {
		filling: 0,
		ready: 0,
		discarding: 0,
		retiring: 0,
		claims: 0,
	};
	readonly #records = new Map<string, ResidencyRecord>();
	readonly #layouts: LayoutTable;
	readonly #signals: TableSignals;
	/** Unclaimed ready records without a place in the queue yet, in the order in which they became so. */
	readonly #pending = new RecordList();

	constructor(layouts: LayoutTable, signals: TableSignals) {
		this.#layouts = layouts;
		this.#signals = signals;
	}

	/** Number of residencies. */
	get size(): number {
		return this.#records.size;
	}

	get(keyText: string): ResidencyRecord | undefined {
		return this.#records.get(keyText);
	}

	records(): Iterable<ResidencyRecord> {
		return this.#records.values();
	}

	/** Gives a fresh record its slots, which must be free, and the claim of its fill. */
	reserve(record: ResidencyRecord): void {
		const layout = this.#layouts.retain(record.layoutInfo);
		record.layoutInfo = layout;
		const { pools } = layout;
		if (pools.length === 1)
			record.slotOrSlots = (pools[0] as (typeof pools)[0]).take();
		else record.slotOrSlots = pools.map((pool) => pool.take());
		record.claims = 1;
		this.counts.claims += 1;
		this.counts.filling += 1;
		this.#records.set(record.keyText, record);
		this.#signals.shrank(layout);
	}

	completeFill(record: ResidencyRecord): void {
		transition(record, "READY", "completeFill");
		this.counts.filling -= 1;
		this.counts.ready += 1;
		this.#signals.becameReady(record);
	}

	failFill(record: ResidencyRecord): void {
		expectState(record, "FILLING", "failFill");
		transition(record, "FREED", "failFill");
		this.counts.filling -= 1;
		this.#voidClaims(record);
		this.#leave(record);
		this.#signals.grew(record.layoutInfo);
	}

	discardFill(record: ResidencyRecord): void {
		transition(record, "DISCARDING", "discardFill");
		this.counts.filling -= 1;
		this.counts.discarding += 1;
		this.#voidClaims(record);
		addTo("quarantined", record.layoutInfo, 1);
	}

	freeDiscarded(record: ResidencyRecord): void {
		expectState(record, "DISCARDING", "freeDiscarded");
		transition(record, "FREED", "freeDiscarded");
		this.counts.discarding -= 1;
		addTo("quarantined", record.layoutInfo, -1);
		this.#leave(record);
		this.#signals.grew(record.layoutInfo);
	}

	claim(record: ResidencyRecord, now: number): void {
		if (record.state === "READY") {
			if (record.claims === 0) {
				this.#unqueue(record);
				addTo("reclaimable", record.layoutInfo, -1);
				this.#signals.shrank(record.layoutInfo);
			}
		} else if (record.state !== "FILLING") {
			throw new ClaimError("claim", `the residency is ${record.state}`);
		}
		record.claims += 1;
		this.counts.claims += 1;
		record.accessCount += 1;
		record.lastAccess = now;
	}

	unclaim(record: ResidencyRecord): void {
		if (record.claims === 0)
			throw new ClaimError("unclaim", "the residency has no claim left");
		if (record.state === "FILLING" && record.claims === 1)
			throw new ClaimError(
				"unclaim",
				"the last claim of a fill ends with the fill",
			);
		record.claims -= 1;
		this.counts.claims -= 1;
		if (record.claims > 0) return;
		if (record.retiring) {
			this.#end(record, "RETIRED", "unclaim");
		} else {
			addTo("reclaimable", record.layoutInfo, 1);
			this.#postpone(record);
		}
		this.#signals.grew(record.layoutInfo);
	}

	/** Notes an access that takes no claim. */
	touch(record: ResidencyRecord, now: number): void {
		record.accessCount += 1;
		record.lastAccess = now;
		if (record.queued === Queued.No) return;
		this.#unqueue(record);
		this.#postpone(record);
	}

	/** True when the block is gone, or goes at its last unclaim. */
	retire(record: ResidencyRecord): boolean {
		if (record.state !== "READY") return false;
		if (record.claims === 0) {
			this.#takeFromQueue(record);
			this.#end(record, "RETIRED", "retire");
			this.#signals.grew(record.layoutInfo);
		} else if (!record.retiring) {
			record.retiring = true;
			this.counts.retiring += 1;
		}
		return true;
	}

	cancelRetire(record: ResidencyRecord): boolean {
		if (!record.retiring) return false;
		this.#clearRetire(record);
		return true;
	}

	/** Removes an unclaimed ready block to make room. */
	evict(record: ResidencyRecord): void {
		this.#takeFromQueue(record);
		this.#end(record, "EVICTED", "evict");
	}

	/** Removes an unclaimed ready block for another reason than room. */
	drop(record: ResidencyRecord): boolean {
		if (record.state !== "READY" || record.claims > 0) return false;
		this.evict(record);
		this.#signals.grew(record.layoutInfo);
		return true;
	}

	/** Puts every unclaimed ready record without a place into the eviction queue. */
	queuePending(score: (record: ResidencyRecord) => number): void {
		for (
			let record = this.#pending.head;
			record !== undefined;
			record = this.#pending.head
		) {
			this.#unqueue(record);
			this.queue.insert(record, score(record));
		}
	}

	/** Records that wait for {@link queuePending}, for checks. */
	get pendingCount(): number {
		return this.#pending.size;
	}

	#postpone(record: ResidencyRecord): void {
		record.queued = Queued.Pending;
		this.#pending.insertAfter(record, this.#pending.tail);
	}

	#unqueue(record: ResidencyRecord): void {
		if (record.queued === Queued.Pending) {
			this.#pending.remove(record);
			record.queued = Queued.No;
		} else if (record.queued !== Queued.No) this.queue.remove(record);
	}

	#takeFromQueue(record: ResidencyRecord): void {
		this.#unqueue(record);
		addTo("reclaimable", record.layoutInfo, -1);
	}

	/** The end of a ready record that is in no queue any more. */
	#end(
		record: ResidencyRecord,
		to: "EVICTED" | "RETIRED",
		operation: string,
	): void {
		transition(record, to, operation);
		this.#clearRetire(record);
		this.counts.ready -= 1;
		this.#leave(record);
		this.#signals.left(record);
	}

	#clearRetire(record: ResidencyRecord): void {
		if (!record.retiring) return;
		record.retiring = false;
		this.counts.retiring -= 1;
	}

	#voidClaims(record: ResidencyRecord): void {
		this.counts.claims -= record.claims;
		record.claims = 0;
	}

	#leave(record: ResidencyRecord): void {
		const { pools } = record.layoutInfo;
		const slots = record.slotOrSlots;
		if (typeof slots === "number") pools[0]?.release(slots);
		else
			for (let i = 0; i < pools.length; i++)
				pools[i]?.release(slots[i] as number);
		this.#layouts.release(record.layoutInfo);
		this.#records.delete(record.keyText);
	}
}

function addTo(
	counter: "reclaimable" | "quarantined",
	layout: Layout,
	times: 1 | -1,
): void {
	const { distinct, counts } = layout;
	for (let i = 0; i < distinct.length; i++) {
		const pool = distinct[i];
		if (pool !== undefined) pool[counter] += times * (counts[i] as number);
	}
}
