import { describe, expect, it } from "vitest";
import {
	ClaimError,
	type ManagedCache,
	type Residency,
	ResidencyStateError,
} from "../src/cache/index.js";
import { INT64_MAX, INT64_MIN } from "../src/ports/index.js";
import { type Rig, reserved, rig } from "./cache-kit.js";

/** One way into each state. */
const INTO: Readonly<Record<Residency["state"], (rig: Rig) => Residency>> = {
	FILLING: ({ admit }) => reserved(admit("a")[0]),
	READY: ({ place }) => place("a")[0] as Residency,
	DISCARDING: ({ admit, cache }) => {
		const residency = reserved(admit("a")[0]);
		cache.discardFill(residency);
		return residency;
	},
	FREED: ({ admit, cache }) => {
		const residency = reserved(admit("a")[0]);
		cache.failFill(residency);
		return residency;
	},
	EVICTED: ({ place, cache }) => {
		const [residency] = place("a") as [Residency];
		cache.drop(residency);
		return residency;
	},
	RETIRED: ({ place, cache }) => {
		const [residency] = place("a") as [Residency];
		cache.retire(residency);
		return residency;
	},
};

const CHANGES: Readonly<
	Record<
		string,
		{
			from: Residency["state"];
			run: (cache: ManagedCache, r: Residency) => void;
		}
	>
> = {
	completeFill: { from: "FILLING", run: (cache, r) => cache.completeFill(r) },
	failFill: { from: "FILLING", run: (cache, r) => cache.failFill(r) },
	discardFill: { from: "FILLING", run: (cache, r) => cache.discardFill(r) },
	freeDiscarded: {
		from: "DISCARDING",
		run: (cache, r) => cache.freeDiscarded(r),
	},
};

describe("the states of a residency", () => {
	for (const [name, { from, run }] of Object.entries(CHANGES)) {
		for (const state of Object.keys(INTO) as Residency["state"][]) {
			it(`${name} ${state === from ? "leaves" : "is impossible in"} ${state}`, () => {
				const it = rig({ kv: 2 });
				const residency = INTO[state](it);
				expect(residency.state).toBe(state);
				const before = it.cache.stats();
				if (state === from) run(it.cache, residency);
				else {
					expect(() => run(it.cache, residency)).toThrow(ResidencyStateError);
					expect(residency.state).toBe(state);
					expect(it.cache.stats()).toEqual(before);
				}
				it.cache.assertConsistent();
			});
		}
	}

	it("keep a discarded fill known and its slots counted until it is freed", () => {
		const { cache, admit } = rig({ kv: 2 });
		const residency = reserved(admit("a", ["kv", "kv"])[0]);
		cache.discardFill(residency);
		expect(cache.get("a")).toBe(residency);
		expect(cache.stats()).toMatchObject({
			discarding: 1,
			claims: 0,
			filling: 0,
		});
		expect(cache.stats().pools).toMatchObject([
			{ free: 0, reclaimable: 0, quarantined: 2, claimed: 0 },
		]);
		expect(admit("b")[0]?.kind).toBe("no_capacity");
		cache.freeDiscarded(residency);
		expect(cache.get("a")).toBeUndefined();
		expect(cache.stats().pools).toMatchObject([{ free: 2, quarantined: 0 }]);
	});

	it("free the slots of a failed fill, claims of waiters or not", () => {
		const { cache, admit } = rig({ kv: 1 });
		const residency = reserved(admit("a")[0]);
		cache.claim(residency);
		cache.failFill(residency);
		expect(cache.stats()).toMatchObject({
			claims: 0,
			filling: 0,
			pools: [{ free: 1 }],
		});
		expect(() => cache.unclaim(residency)).toThrow(ClaimError);
		cache.assertConsistent();
	});
});

describe("claims", () => {
	it("are counted, and ending one too many throws", () => {
		const { cache, place } = rig({ kv: 1 });
		const [a] = place("a") as [Residency];
		cache.claim(a);
		cache.claim(a);
		expect(cache.stats()).toMatchObject({
			claims: 2,
			pools: [{ claimed: 1, reclaimable: 0 }],
		});
		cache.unclaim(a);
		cache.unclaim(a);
		expect(cache.stats()).toMatchObject({
			claims: 0,
			pools: [{ claimed: 0, reclaimable: 1 }],
		});
		expect(() => cache.unclaim(a)).toThrow(ClaimError);
		cache.assertConsistent();
	});

	it.each(["DISCARDING", "FREED", "EVICTED", "RETIRED"] as const)(
		"cannot be taken on a %s block",
		(state) => {
			const it = rig({ kv: 1 });
			const residency = INTO[state](it);
			expect(() => it.cache.claim(residency)).toThrow(ClaimError);
		},
	);

	it("of the fill itself end with the fill only", () => {
		const { cache, admit } = rig({ kv: 1 });
		const residency = reserved(admit("a")[0]);
		expect(() => cache.unclaim(residency)).toThrow(ClaimError);
		cache.claim(residency);
		cache.unclaim(residency);
		cache.completeFill(residency);
		expect(residency.claims).toBe(1);
		cache.unclaim(residency);
		cache.assertConsistent();
	});

	it("count as accesses at the time they are taken", () => {
		const { cache, clock, place } = rig({ kv: 1 });
		const [a] = place("a") as [Residency];
		clock.advance(50);
		cache.claim(a);
		clock.advance(50);
		cache.unclaim(a);
		expect(a).toMatchObject({
			accessCount: 1,
			admittedAt: 1000,
			lastAccess: 1051,
		});
	});

	it("leave one place in the queue however often they come and go before a settle", () => {
		const { cache, place, at, admit, known } = rig({ kv: 3 });
		place("abc");
		for (let i = 0; i < 100; i++) {
			cache.claim(at("a"));
			cache.unclaim(at("a"));
			cache.touch(at("a"));
		}
		cache.assertConsistent();
		cache.settle();
		cache.assertConsistent();
		admit("de");
		expect(known()).toBe("ade");
	});
});

describe("retiring", () => {
	it("removes an unclaimed block at once", () => {
		const { cache, place, events } = rig({ kv: 1 });
		const [a] = place("a") as [Residency];
		expect(cache.retire(a)).toBe(true);
		expect(cache.get("a")).toBeUndefined();
		expect(a.state).toBe("RETIRED");
		cache.settle();
		expect(events).toEqual(["+a", "-a"]);
		expect(cache.retire(a)).toBe(false);
	});

	it("waits for the last reader", () => {
		const { cache, place, events } = rig({ kv: 1 });
		const [a] = place("a") as [Residency];
		cache.claim(a);
		const handle = cache.issueHandle([a]);
		cache.claim(a);
		expect(cache.retire(a)).toBe(true);
		cache.unclaim(a);
		cache.settle();
		expect(cache.get("a")).toBe(a);
		expect(cache.stats()).toMatchObject({ retiring: 1 });
		cache.releaseHandle(handle);
		cache.settle();
		expect(cache.get("a")).toBeUndefined();
		expect(cache.stats()).toMatchObject({
			retiring: 0,
			ready: 0,
			pools: [{ free: 1 }],
		});
		expect(events).toEqual(["+a", "-a"]);
	});

	it("is called off by a later user of the block", () => {
		const { cache, place } = rig({ kv: 1 });
		const [a] = place("a") as [Residency];
		cache.claim(a);
		cache.retire(a);
		expect(cache.cancelRetire(a)).toBe(true);
		expect(cache.cancelRetire(a)).toBe(false);
		cache.unclaim(a);
		expect(cache.get("a")).toBe(a);
		cache.assertConsistent();
	});

	it.each(["FILLING", "DISCARDING", "FREED", "EVICTED", "RETIRED"] as const)(
		"does nothing to a %s block",
		(state) => {
			const it = rig({ kv: 1 });
			const residency = INTO[state](it);
			expect(it.cache.retire(residency)).toBe(false);
			expect(it.cache.drop(residency)).toBe(false);
			expect(residency.state).toBe(state);
			it.cache.assertConsistent();
		},
	);

	it("does not touch a newer block of the same key", () => {
		const { cache, place } = rig({ kv: 1 });
		const [old] = place("a") as [Residency];
		cache.drop(old);
		const [fresh] = place("a") as [Residency];
		expect(cache.retire(old)).toBe(false);
		expect(cache.get("a")).toBe(fresh);
	});
});

describe("release handles", () => {
	it("end their claims once", () => {
		const { cache, place } = rig({ kv: 2 });
		const blocks = place("ab");
		for (const block of blocks) cache.claim(block);
		const handle = cache.issueHandle(blocks);
		expect(cache.stats()).toMatchObject({ handles: 1, claims: 2 });
		expect(cache.releaseHandle(handle)).toBe(true);
		expect(cache.releaseHandle(handle)).toBe(false);
		expect(cache.releaseHandle(handle + 1n)).toBe(false);
		expect(cache.stats()).toMatchObject({ handles: 0, claims: 0 });
	});

	it("are refused for blocks without a claim", () => {
		const { cache, place, admit } = rig({ kv: 2 });
		expect(() => cache.issueHandle(place("a"))).toThrow(ClaimError);
		expect(() => cache.issueHandle([reserved(admit("b")[0])])).toThrow(
			ClaimError,
		);
	});

	it("are signed 64-bit, differ from each other and between caches", () => {
		const make = () => {
			const { cache, place } = rig({ kv: 1 });
			const [a] = place("a") as [Residency];
			return Array.from({ length: 50 }, () => {
				cache.claim(a);
				return cache.issueHandle([a]);
			});
		};
		const all = [...make(), ...make()];
		expect(new Set(all).size).toBe(100);
		for (const handle of all) {
			expect(handle >= INT64_MIN && handle <= INT64_MAX).toBe(true);
		}
	});
});
