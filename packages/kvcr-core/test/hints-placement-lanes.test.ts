/** Groups waiting for their fetch: sources take turns, and each has a bounded number of keys under way. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	MAX_KEYS_IN_FLIGHT_PER_SOURCE,
	PlacementLanes,
} from "../src/hints/placement-lanes.js";

interface Group {
	readonly source: string;
	readonly keyCount: number;
	readonly name: string;
}

const group = (source: string, name: string, keyCount = 1): Group => ({
	source,
	keyCount,
	name,
});

describe("the placement lanes", () => {
	it("give sources turns, and each source its groups in order", () => {
		const lanes = new PlacementLanes<Group>();
		for (const name of ["a1", "a2", "a3", "b1", "c1", "b2"])
			lanes.add(group(name[0] as string, name));
		const order: string[] = [];
		for (;;) {
			const next = lanes.next();
			if (next === undefined) break;
			order.push(next.name);
		}
		expect(order).toEqual(["a1", "b1", "c1", "a2", "b2", "a3"]);
	});

	it("hold a source at its bound, and let a larger group go alone", () => {
		const lanes = new PlacementLanes<Group>();
		const big = group("a", "big", MAX_KEYS_IN_FLIGHT_PER_SOURCE + 1);
		const small = group("a", "small");
		lanes.add(big);
		lanes.add(small);
		expect(lanes.next()).toBe(big);
		expect(lanes.hasNext).toBe(false);
		lanes.end(big);
		lanes.end(big);
		expect(lanes.next()).toBe(small);
		lanes.end(small);
		expect(lanes.sources).toBe(0);
	});

	it("hand out every group once, never more keys of a source than allowed, and end empty", () => {
		const step = fc.oneof(
			fc.record({
				kind: fc.constant("add" as const),
				source: fc.constantFrom("a", "b", "c"),
				keyCount: fc.integer({ min: 1, max: 1_500 }),
			}),
			fc.constant({ kind: "next" as const }),
			fc.record({ kind: fc.constant("end" as const), which: fc.nat() }),
		);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
				const lanes = new PlacementLanes<Group>();
				const waiting = new Set<Group>();
				const active: Group[] = [];
				const take = (): boolean => {
					const next = lanes.next();
					if (next === undefined) return false;
					expect(waiting.delete(next)).toBe(true);
					active.push(next);
					const mine = active.filter(({ source }) => source === next.source);
					const keys = mine.reduce((sum, { keyCount }) => sum + keyCount, 0);
					expect(
						mine.length === 1 || keys <= MAX_KEYS_IN_FLIGHT_PER_SOURCE,
					).toBe(true);
					return true;
				};
				steps.forEach((entry, i) => {
					if (entry.kind === "add") {
						const added = group(entry.source, `${i}`, entry.keyCount);
						waiting.add(added);
						lanes.add(added);
					} else if (entry.kind === "next") take();
					else if (active.length > 0)
						lanes.end(
							active.splice(entry.which % active.length, 1)[0] as Group,
						);
				});
				while (waiting.size > 0 || active.length > 0) {
					if (take()) continue;
					expect(active.length).toBeGreaterThan(0);
					lanes.end(active.shift() as Group);
				}
				expect(lanes.sources).toBe(0);
				expect(lanes.hasNext).toBe(false);
			}),
			{ numRuns: 500 },
		);
	});

	it("give back everything when cleared", () => {
		const lanes = new PlacementLanes<Group>();
		const groups = ["a1", "a2", "b1"].map((name) =>
			group(name[0] as string, name),
		);
		for (const entry of groups) lanes.add(entry);
		const first = lanes.next() as Group;
		const { active, waiting } = lanes.clear();
		expect(active).toEqual([first]);
		expect(new Set([...active, ...waiting])).toEqual(new Set(groups));
		expect(lanes.sources).toBe(0);
		lanes.end(first);
		expect(lanes.next()).toBeUndefined();
	});
});
