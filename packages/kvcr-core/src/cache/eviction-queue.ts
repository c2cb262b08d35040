/**
 * Evictable records in the order of their scores; equal scores in the order in which they came.
 *
 * Records that use the same set of pools share a lane. A walk merges the lanes that have slots of a pool in need, so
 * that blocks of other pools cost nothing, however many there are.
 */
import { EvictionLane, goesFirst } from "./eviction-lane.js";
import type { Layout } from "./layout.js";
import type { ResidencyRecord } from "./residency.js";
import { touches } from "./slot-counts.js";

interface Lane {
	readonly layout: Layout;
	readonly records: EvictionLane;
	/** Whether the walk in progress has begun to read this lane. */
	walked: boolean;
}

/** The queue. A walk happens inside one admission, and nothing else happens meanwhile. */
export class EvictionQueue {
	/** By `Layout.lane`. */
	readonly #lanes: (Lane | undefined)[] = [];
	#sequence = 0;

	/** Number of records. */
	get size(): number {
		return this.#lanes.reduce(
			(sum, lane) => sum + (lane?.records.size ?? 0),
			0,
		);
	}

	/** Adds a record that is not in the queue. */
	insert(record: ResidencyRecord, score: number): void {
		record.score = score;
		record.sequence = ++this.#sequence;
		const layout = record.layoutInfo;
		let lane = this.#lanes[layout.lane];
		if (lane === undefined) {
			lane = { layout, records: new EvictionLane(), walked: false };
			this.#lanes[layout.lane] = lane;
		}
		lane.records.insert(record);
	}

	/** Removes a record that is in the queue. Not during a walk. */
	remove(record: ResidencyRecord): void {
		this.#lanes[record.layoutInfo.lane]?.records.remove(record);
	}

	/**
	 * The next record of a walk, from the lowest score up, that has a slot in a pool with `short[pool.index] > 0`. It stays
	 * in the queue. Until {@link endWalk} nothing may be inserted or removed.
	 */
	step(short: Float64Array): ResidencyRecord | undefined {
		let best: ResidencyRecord | undefined;
		let from: Lane | undefined;
		for (const lane of this.#lanes) {
			if (lane === undefined || !touches(short, lane.layout)) continue;
			if (!lane.walked) lane.records.startWalk();
			lane.walked = true;
			const record = lane.records.peek();
			if (
				record === undefined ||
				(best !== undefined && !goesFirst(record, best))
			)
				continue;
			best = record;
			from = lane;
		}
		from?.records.advance();
		return best;
	}

	/** Ends the walk: every record is where it was. */
	endWalk(): void {
		for (const lane of this.#lanes) {
			if (!lane?.walked) continue;
			lane.records.endWalk();
			lane.walked = false;
		}
	}

	/** All records in order of eviction, for checks. */
	toArray(): ResidencyRecord[] {
		return this.#lanes
			.flatMap((lane) => lane?.records.toArray() ?? [])
			.sort((a, b) => (goesFirst(a, b) ? -1 : 1));
	}
}
