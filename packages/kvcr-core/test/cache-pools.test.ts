import { describe, expect, it } from "vitest";
import { ManagedCache, poolOfLabel, SlotError } from "../src/cache/index.js";
import { LayoutTable } from "../src/cache/layout.js";
import { createPools, SlotPool } from "../src/cache/slot-pool.js";
import { InvalidArgumentError, silentLogger } from "../src/ports/index.js";
import { ManualClock } from "../src/testing/manual-clock.js";
import { rig, testRegion } from "./cache-kit.js";

describe("the free list", () => {
	it("refuses a slot that is free already, and one outside the pool, and stays as it was", () => {
		const pool = new SlotPool({ name: "kv", region: testRegion(3) }, 0);
		const slots = [pool.take(), pool.take(), pool.take()];
		expect([...slots].sort()).toEqual([0, 1, 2]);
		expect(() => pool.take()).toThrow(SlotError);
		pool.release(1);
		expect(() => pool.release(1)).toThrow(
			/slot 1 of pool "kv" is free already/,
		);
		expect(() => pool.release(3)).toThrow(/slot 3 of pool "kv" does not exist/);
		expect(() => pool.release(-1)).toThrow(SlotError);
		expect(pool.freeSlots()).toEqual([1]);
		expect(pool.take()).toBe(1);
	});

	it("hands out low slots first", () => {
		const pool = new SlotPool({ name: "kv", region: testRegion(4) }, 0);
		expect([pool.take(), pool.take()]).toEqual([0, 1]);
	});
});

describe("pool names and labels", () => {
	it("reads the pool of a label from what stands before the first colon", () => {
		expect(["kv", "kv:0", "kv:a:b", "", ":part"].map(poolOfLabel)).toEqual([
			"kv",
			"kv",
			"kv",
			"",
			"",
		]);
	});

	it.each([
		["a colon in a name", ["a:b"]],
		["an empty name beside others", ["", "kv"]],
		["the same name twice", ["kv", "kv"]],
		["no pool at all", []],
	])("refuses %s", (_what, names) => {
		const specs = names.map((name) => ({ name, region: testRegion(1) }));
		expect(() => createPools(specs)).toThrow(InvalidArgumentError);
	});

	it("allows the empty name for a single pool", () => {
		const { cache, place } = rig({ "": 1 });
		place("a", [":part"]);
		expect(cache.pieces(cache.get("a") as never)).toMatchObject([
			{ label: ":part", pool: "", slot: 0 },
		]);
	});

	it.each([
		["inventoryReportIntervalMs", -1],
		["capacityLowWatermarkPercent", 101],
		["capacityLowWatermarkPercent", Number.NaN],
	])("refuses %s = %d with the argument in the message", (name, value) => {
		const make = () =>
			new ManagedCache({
				pools: [{ name: "", region: testRegion(1) }],
				clock: new ManualClock(),
				logger: silentLogger,
				[name]: value,
			});
		expect(make).toThrow(new RegExp(`${name} must be .* got ${value}`));
	});
});

describe("layouts", () => {
	it("are one object for equal labels while a block uses them, and forgotten afterwards", () => {
		const table = new LayoutTable(
			createPools([{ name: "kv", region: testRegion(4) }]),
		);
		const first = table.retain(
			table.lookup(["kv:a", "kv:b"], "test", "layout"),
		);
		const other = table.retain(
			table.lookup(["kv:b", "kv:a"], "test", "layout"),
		);
		const again = table.retain(
			table.lookup(["kv:a", "kv:b"], "test", "layout"),
		);
		expect(again).toBe(first);
		expect(other).not.toBe(first);
		expect(table.size).toBe(2);
		for (const layout of [first, other, again]) table.release(layout);
		expect(table.size).toBe(0);
	});

	it("stay one object when looked up several times before the first use", () => {
		const table = new LayoutTable(
			createPools([{ name: "kv", region: testRegion(4) }]),
		);
		const looked = ["kv:a", "kv:b", "kv:a"].map((label) =>
			table.lookup([label], "test", "layout"),
		);
		const used = looked.map((layout) => table.retain(layout));
		expect(used[2]).toBe(used[0]);
		expect(table.size).toBe(2);
		for (const layout of used) table.release(layout);
		expect(table.size).toBe(0);
	});

	it("share an eviction lane when they use the same pools, in whatever order", () => {
		const pools = ["kv", "idx"].map((name) => ({
			name,
			region: testRegion(4),
		}));
		const table = new LayoutTable(createPools(pools));
		const lane = (...labels: string[]) =>
			table.lookup(labels, "test", "layout").lane;
		expect(lane("kv", "idx")).toBe(lane("idx:a", "kv", "kv"));
		expect(lane("kv")).not.toBe(lane("idx"));
		expect(lane("kv")).not.toBe(lane("kv", "idx"));
	});

	it("do not pile up when labels are never the same twice", () => {
		const { cache, place } = rig({ kv: 2 });
		for (let i = 0; i < 100; i++)
			for (const block of place("a", [`kv:${i}`])) cache.drop(block);
		expect(cache.stats()).toMatchObject({ ready: 0 });
		expect(cache.pieceSizes(["kv:1", "kv"])).toEqual([8, 8]);
		expect(cache.pieceSizes(["kv", "other"])).toBeUndefined();
	});
});
