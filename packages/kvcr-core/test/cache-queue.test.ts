import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { EvictionLane } from "../src/cache/eviction-lane.js";
import { EvictionQueue } from "../src/cache/eviction-queue.js";
import { LayoutTable } from "../src/cache/layout.js";
import { Queued, ResidencyRecord } from "../src/cache/residency.js";
import { createPools } from "../src/cache/slot-pool.js";
import { testRegion } from "./cache-kit.js";

const POOLS = createPools(
	["p", "q"].map((name) => ({ name, region: testRegion(1) })),
);
const TABLE = new LayoutTable(POOLS);
const LAYOUTS = [["p"], ["q"], ["p", "q"], ["p:other"]].map((labels) =>
	TABLE.lookup(labels, "test", "layout"),
);

/** Reads the first records of a walk and ends it. */
function walk(
	queue: EvictionQueue,
	short: Float64Array,
	most: number,
): ResidencyRecord[] {
	const seen: ResidencyRecord[] = [];
	while (seen.length < most) {
		const record = queue.step(short);
		if (record === undefined) break;
		seen.push(record);
	}
	queue.endWalk();
	return seen;
}

describe("the eviction queue", () => {
	it("is in the order of scores, then of arrival, under any inserts, removals and walks", () => {
		const action = fc.oneof(
			{
				weight: 8,
				arbitrary: fc.record({
					do: fc.constant("insert" as const),
					score: fc.oneof(
						fc.integer({ min: 0, max: 9 }),
						fc.constant(Number.NEGATIVE_INFINITY),
						fc.double({ noNaN: true }),
					),
					layout: fc.nat(3),
				}),
			},
			{
				weight: 2,
				arbitrary: fc.record({
					do: fc.constant("remove" as const),
					at: fc.nat(),
				}),
			},
			{
				weight: 2,
				arbitrary: fc.record({
					do: fc.constant("walk" as const),
					most: fc.nat(12),
					p: fc.boolean(),
					q: fc.boolean(),
				}),
			},
		);
		fc.assert(
			fc.property(
				fc.array(action, { maxLength: 400, size: "max" }),
				(actions) => {
					const queue = new EvictionQueue();
					const list: ResidencyRecord[] = [];
					for (const each of actions) {
						if (each.do === "insert") {
							const record = new ResidencyRecord(
								"k",
								LAYOUTS[each.layout] as never,
								0,
							);
							queue.insert(record, each.score);
							const behind = list.findIndex(({ score }) => score > each.score);
							list.splice(behind < 0 ? list.length : behind, 0, record);
						} else if (each.do === "remove" && list.length > 0) {
							const [record] = list.splice(each.at % list.length, 1) as [
								ResidencyRecord,
							];
							queue.remove(record);
							expect(record.queued).toBe(Queued.No);
						} else if (each.do === "walk") {
							const short = Float64Array.of(each.p ? 1 : 0, each.q ? 1 : 0);
							const expected = list.filter(({ layoutInfo }) =>
								layoutInfo.distinct.some(
									({ index }) => (short[index] ?? 0) > 0,
								),
							);
							expect(walk(queue, short, each.most)).toEqual(
								expected.slice(0, each.most),
							);
						}
						expect(queue.size).toBe(list.length);
					}
					expect(queue.toArray()).toEqual(list);
				},
			),
			{ numRuns: 300 },
		);
	});

	it("stays in order when a record deep in the heap goes and a smaller one takes its place", () => {
		const queue = new EvictionQueue();
		const insert = (score: number) => {
			const record = new ResidencyRecord("k", LAYOUTS[0] as never, 0);
			queue.insert(record, score);
			return record;
		};
		// The run is out of reach for what follows, so that it forms the heap as written.
		for (let i = 0; i < 9; i++) insert(1000 + i);
		const heap = [
			0, 100, 1, 101, 102, 50, 60, 200, 201, 202, 203, 51, 52, 61, 62,
		].map(insert);
		queue.remove(heap[3] as ResidencyRecord);
		const scores = walk(queue, Float64Array.of(1, 0), 99).map(
			({ score }) => score,
		);
		expect(scores).toEqual([...scores].sort((a, b) => a - b));
		expect(scores).toHaveLength(23);
	});

	it("does not look at blocks of other pools, however many go first", () => {
		const queue = new EvictionQueue();
		for (let i = 0; i < 1000; i++)
			queue.insert(new ResidencyRecord("k", LAYOUTS[0] as never, 0), i);
		const wanted = new ResidencyRecord("k", LAYOUTS[1] as never, 0);
		queue.insert(wanted, 5000);
		const advance = vi.spyOn(EvictionLane.prototype, "advance");
		expect(walk(queue, Float64Array.of(0, 1), 9)).toEqual([wanted]);
		expect(advance).toHaveBeenCalledTimes(1);
		advance.mockRestore();
	});
});
