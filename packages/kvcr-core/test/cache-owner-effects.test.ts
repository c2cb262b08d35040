import { describe, expect, it } from "vitest";
import type { Residency } from "../src/cache/index.js";
import { keyText } from "../src/ports/index.js";
import { reserved, rig, ScriptedPolicy } from "./cache-kit.js";

describe("progress calls", () => {
	it("tell no policy, sink or listener anything before settle", () => {
		const policy = new ScriptedPolicy();
		const needed: unknown[] = [];
		const { cache, admit, events } = rig(
			{ kv: 2 },
			{
				policy,
				capacityListener: (list) => needed.push(list),
				capacityLowWatermarkPercent: 100,
			},
		);
		const a = reserved(admit("a")[0]);
		policy.calls.length = 0;
		cache.completeFill(a);
		cache.unclaim(a);
		cache.claim(a);
		cache.retire(a);
		cache.unclaim(a);
		expect([policy.calls, events, needed]).toEqual([[], [], []]);
		cache.settle();
		expect(policy.calls).toEqual(["ingested a", "removed a"]);
		expect(events).toEqual(["+a", "-a"]);
	});

	it("ask once for the owner until it settles", () => {
		const { cache, admit, wakes } = rig({ kv: 2 });
		const [a, b] = admit("ab").map(reserved) as [Residency, Residency];
		expect(wakes.count).toBe(0);
		cache.completeFill(a);
		cache.completeFill(b);
		expect(wakes.count).toBe(1);
		cache.settle();
		cache.unclaim(a);
		expect(wakes.count).toBe(1);
		cache.retire(a);
		expect(wakes.count).toBe(2);
	});
});

describe("callbacks that use the cache", () => {
	it("see a consistent cache, and what they cause is told in the next settle", () => {
		let extra: (() => void) | undefined;
		const policy = new ScriptedPolicy();
		const it = rig(
			{ kv: 3 },
			{
				policy,
				inventorySink: ({ removed }) => {
					it.events.push(removed ? "-" : "+");
					it.cache.assertConsistent();
					it.cache.settle();
					extra?.();
					extra = undefined;
				},
			},
		);
		extra = () => it.cache.drop(it.at("a"));
		it.place("a");
		expect(it.events).toEqual(["+"]);
		expect(it.wakes.count).toBeGreaterThan(0);
		it.cache.settle();
		expect(it.events).toEqual(["+", "-"]);
	});

	it("cannot make later changes of a block be told before earlier ones", () => {
		let again = false;
		const heard: string[] = [];
		const it = rig(
			{ kv: 2 },
			{
				inventoryReportIntervalMs: 100,
				inventorySink: ({ keys, removed }) => {
					heard.push(`${removed ? "-" : "+"}${keys.map(keyText).join()}`);
					if (again) return;
					again = true;
					it.place("a");
					it.clock.advance(100);
					it.cache.settle();
				},
			},
		);
		it.place("ab");
		it.cache.drop(it.at("a"));
		it.clock.advance(100);
		it.cache.settle();
		expect(heard).toEqual(["+a,b", "-a"]);
		it.cache.settle();
		it.clock.advance(100);
		it.cache.settle();
		expect(heard).toEqual(["+a,b", "-a", "+a"]);
	});

	it("that throw do not stop the rest, and are reported once", () => {
		const policy = new ScriptedPolicy();
		policy.onIngest = () => {
			throw new Error("ingest");
		};
		policy.onRemove = () => {
			throw new Error("remove");
		};
		let sunk = 0;
		const { place, log, known } = rig(
			{ kv: 1 },
			{
				policy,
				inventorySink: () => {
					sunk += 1;
					throw new Error("sink");
				},
			},
		);
		place("abc");
		expect(known()).toBe("c");
		expect(sunk).toBe(5);
		expect(log.warnings.map(({ message }) => message)).toEqual([
			expect.stringContaining("placement policy"),
			expect.stringContaining("inventory sink"),
			expect.stringContaining("placement policy"),
		]);
	});
});

describe("inventory events", () => {
	it("wait for the interval, the first change counting, and ask for the owner when due", () => {
		const { cache, clock, place, events, wakes } = rig(
			{ kv: 4 },
			{ inventoryReportIntervalMs: 100 },
		);
		place("a");
		clock.advance(59);
		place("b");
		expect(events).toEqual([]);
		wakes.count = 0;
		clock.advance(40);
		expect(wakes.count).toBe(1);
		expect(events).toEqual([]);
		cache.settle();
		expect(events).toEqual(["+a,b"]);
		expect(clock.pending).toBe(0);
	});

	it("keep the order of changes of one key, in few events", () => {
		const { cache, clock, place, events } = rig(
			{ kv: 2 },
			{ inventoryReportIntervalMs: 100 },
		);
		place("abcabd");
		clock.advance(100);
		cache.settle();
		expect(events.length).toBeLessThanOrEqual(4);
		const changes = events.flatMap((event) =>
			event
				.slice(1)
				.split(",")
				.map((key) => `${event[0]}${key}`),
		);
		const of = (key: string) =>
			changes.filter((change) => change.endsWith(key)).join();
		expect(of("a")).toBe("+a,-a,+a,-a");
		expect(of("b")).toBe("+b,-b,+b");
		expect(of("c")).toBe("+c,-c");
		expect(of("d")).toBe("+d");
	});

	it("say nothing of blocks that were never ready", () => {
		const { cache, admit, events } = rig({ kv: 2 });
		const [a, b] = admit("ab").map(reserved) as [Residency, Residency];
		cache.failFill(a);
		cache.discardFill(b);
		cache.freeDiscarded(b);
		cache.settle();
		expect(events).toEqual([]);
	});

	it("are delivered at close, which leaves no timer, nor does anything later", () => {
		const { cache, clock, place, at, events } = rig(
			{ kv: 2 },
			{ inventoryReportIntervalMs: 100 },
		);
		place("ab");
		cache.close();
		cache.close();
		expect(events).toEqual(["+a,b"]);
		cache.drop(at("a"));
		cache.settle();
		expect(events).toEqual(["+a,b", "-a"]);
		expect(clock.pending).toBe(0);
		expect(() => cache.admit([], "deposit")).toThrow(/managed G2 is closed/);
	});
});

describe("the low watermark", () => {
	const watched = (
		pools: Readonly<Record<string, number>>,
		percent: number,
	) => {
		const needed: unknown[] = [];
		return {
			needed,
			...rig(pools, {
				capacityListener: (list) => needed.push(...list),
				capacityLowWatermarkPercent: percent,
			}),
		};
	};

	it("is reported once per shortage and pool, with the slots missing, and armed again above it", () => {
		const { cache, place, at, needed } = watched({ kv: 4, idx: 4 }, 50);
		place("abcd");
		expect(needed).toEqual([]);
		for (const key of "abc") cache.claim(at(key));
		cache.settle();
		cache.settle();
		expect(needed).toEqual([{ pool: "kv", slots: 1 }]);
		cache.unclaim(at("a"));
		cache.settle();
		cache.claim(at("a"));
		cache.settle();
		expect(needed).toHaveLength(1);
		cache.unclaim(at("a"));
		cache.unclaim(at("b"));
		cache.settle();
		cache.claim(at("a"));
		cache.claim(at("b"));
		cache.claim(at("d"));
		cache.settle();
		expect(needed).toEqual([
			{ pool: "kv", slots: 1 },
			{ pool: "kv", slots: 2 },
		]);
	});

	it("counts quarantined slots as gone, and asks for the owner when progress caused the shortage", () => {
		const { cache, place, admit, at, needed, wakes } = watched({ kv: 2 }, 100);
		cache.discardFill(reserved(admit("a")[0]));
		cache.settle();
		expect(needed).toEqual([{ pool: "kv", slots: 1 }]);
		cache.freeDiscarded(at("a"));
		cache.settle();
		place("b");
		needed.length = 0;
		wakes.count = 0;
		cache.claim(at("b"));
		expect(needed).toEqual([]);
		expect(wakes.count).toBe(1);
		cache.settle();
		expect(needed).toEqual([{ pool: "kv", slots: 1 }]);
	});

	it("survives a listener that throws", () => {
		const { cache, place, at, log } = rig(
			{ kv: 1 },
			{
				capacityListener: () => {
					throw new Error("boom");
				},
				capacityLowWatermarkPercent: 100,
			},
		);
		place("a");
		cache.claim(at("a"));
		cache.settle();
		expect(log.warnings.at(-1)?.message).toContain("capacity listener");
		cache.assertConsistent();
	});
});
