import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CapacityTicket, Residency } from "../src/cache/index.js";
import { type Rig, rig } from "./cache-kit.js";

/** A waiter that admits its keys and writes down what happened. */
function wait(
	{ cache }: Rig,
	story: string[],
	name: string,
	keys: string,
	deadline: number,
	layout: readonly string[] = ["kv"],
): CapacityTicket {
	let left = [...keys];
	const attempt = (): ReadonlyMap<string, number> | undefined => {
		let missing: Map<string, number> | undefined;
		const outcomes = cache.admit(
			left.map((keyText) => ({ keyText, layout })),
			"fetch",
		);
		left = left.filter((key, i) => {
			const outcome = outcomes[i];
			if (outcome?.kind === "reserved") {
				story.push(`${name} got ${key}`);
				cache.completeFill(outcome.residency);
				return false;
			}
			if (outcome?.kind !== "no_capacity")
				throw new Error(`unexpected ${outcome?.kind}`);
			missing ??= new Map();
			for (const [pool, slots] of outcome.missing)
				missing.set(pool, (missing.get(pool) ?? 0) + slots);
			return true;
		});
		return missing;
	};
	const missing = attempt();
	if (missing === undefined) throw new Error("nothing to wait for");
	return cache.waitForCapacity(
		{ retry: attempt, expire: (reason) => story.push(`${name} ${reason}`) },
		missing,
		deadline,
	);
}

/** A rig whose slots are all claimed. */
function full(slots: number): { it: Rig; held: Residency[]; story: string[] } {
	const it = rig({ kv: slots, idx: 1 });
	const held = it.place("abcdefgh".slice(0, slots));
	for (const block of held) it.cache.claim(block);
	it.cache.settle();
	it.wakes.count = 0;
	return { it, held, story: [] };
}

describe("waiting for capacity", () => {
	it("ends the wait of one whose retry throws, serves those behind it, and says what was thrown", () => {
		const { it, held, story } = full(2);
		const broken = (name: string) =>
			it.cache.waitForCapacity(
				{
					retry: () => {
						throw new Error(name);
					},
					expire: (reason) => story.push(`${name} ${reason}`),
				},
				new Map([["kv", 1]]),
				5000,
			);
		broken("first");
		wait(it, story, "w", "x", 5000);
		broken("last");
		for (const block of held) it.cache.unclaim(block);
		expect(() => it.cache.settle()).toThrow("first");
		expect(story).toEqual(["first failed", "w got x", "last failed"]);
		it.cache.settle();
		expect(it.cache.stats().waiting).toBe(0);
		expect(it.clock.pending).toBe(0);
	});

	it("is woken by an unclaim and served at the next settle", () => {
		const { it, held, story } = full(2);
		wait(it, story, "w", "x", 5000);
		it.cache.settle();
		expect(story).toEqual([]);
		it.cache.unclaim(held[0] as Residency);
		expect(it.wakes.count).toBe(1);
		expect(story).toEqual([]);
		it.cache.settle();
		expect(story).toEqual(["w got x"]);
		expect(it.known()).toBe("bx");
		expect(it.cache.stats().waiting).toBe(0);
		expect(it.clock.pending).toBe(0);
	});

	it.each([
		["a failed fill", (it: Rig) => it.cache.failFill(it.at("z"))],
		[
			"a discarded fill that was freed",
			(it: Rig) => {
				it.cache.discardFill(it.at("z"));
				it.cache.freeDiscarded(it.at("z"));
			},
		],
		[
			"a retired block",
			(it: Rig) => {
				it.cache.completeFill(it.at("z"));
				it.cache.retire(it.at("z"));
				it.cache.unclaim(it.at("z"));
			},
		],
	])("is woken by %s", (_what, free) => {
		const it = rig({ kv: 1 });
		const story: string[] = [];
		it.admit("z");
		wait(it, story, "w", "x", 5000);
		free(it);
		expect(it.wakes.count).toBe(1);
		it.cache.settle();
		expect(story).toEqual(["w got x"]);
	});

	it("is not woken by a discarded fill whose slots may still be written", () => {
		const it = rig({ kv: 1 });
		const story: string[] = [];
		it.admit("z");
		wait(it, story, "w", "x", 5000);
		it.cache.discardFill(it.at("z"));
		it.cache.settle();
		expect(story).toEqual([]);
	});

	it("serves first come, first served, and takes what comes bit by bit", () => {
		const { it, held, story } = full(3);
		wait(it, story, "first", "xy", 5000);
		wait(it, story, "second", "z", 5000);
		for (const block of held) {
			it.cache.unclaim(block);
			it.cache.settle();
		}
		expect(story).toEqual(["first got x", "first got y", "second got z"]);
	});

	it("keeps newcomers from overtaking in the same pool, and only there", () => {
		const { it, held, story } = full(3);
		wait(it, story, "big", "x", 5000, ["kv", "kv"]);
		it.cache.unclaim(held[0] as Residency);
		it.cache.settle();
		expect(it.admit("n")[0]).toEqual({
			kind: "no_capacity",
			missing: new Map([["kv", 1]]),
		});
		expect(it.admit("o", ["idx"])[0]?.kind).toBe("reserved");
		it.cache.unclaim(held[1] as Residency);
		it.cache.settle();
		expect(story).toEqual(["big got x"]);
	});

	it("passes waiters of other pools", () => {
		const { it, story } = full(1);
		it.admit("o", ["idx"]);
		wait(it, story, "kv", "x", 5000);
		wait(it, story, "idx", "y", 5000, ["idx"]);
		it.cache.failFill(it.at("o"));
		it.cache.settle();
		expect(story).toEqual(["idx got y"]);
	});

	it("ends at the deadline, in settle, and lets the next one have its turn", () => {
		const { it, held, story } = full(2);
		wait(it, story, "big", "x", it.clock.now() + 100, ["kv", "kv"]);
		wait(it, story, "small", "y", 5000);
		it.cache.unclaim(held[0] as Residency);
		it.cache.settle();
		it.wakes.count = 0;
		it.clock.advance(99);
		it.cache.settle();
		expect(story).toEqual([]);
		it.clock.advance(1);
		expect(it.wakes.count).toBe(1);
		expect(story).toEqual([]);
		it.cache.settle();
		expect(story).toEqual(["big deadline", "small got y"]);
	});

	it("ends by cancelling, which makes room for those behind, and never calls back", () => {
		const { it, held, story } = full(2);
		const ticket = wait(it, story, "big", "x", 2000, ["kv", "kv"]);
		wait(it, story, "small", "y", 5000);
		it.cache.unclaim(held[0] as Residency);
		it.cache.settle();
		ticket.cancel();
		ticket.cancel();
		it.cache.settle();
		expect(story).toEqual(["small got y"]);
		it.clock.advance(10_000);
		it.cache.settle();
		expect(story).toEqual(["small got y"]);
		expect(it.clock.pending).toBe(0);
	});

	it("ends at close, and leaves no timer", () => {
		const { it, story } = full(1);
		wait(it, story, "w", "x", 5000);
		it.cache.close();
		expect(story).toEqual(["w closed"]);
		expect(it.clock.pending).toBe(0);
		expect(() =>
			it.cache.waitForCapacity(
				{ retry: () => undefined, expire: () => {} },
				new Map(),
				0,
			),
		).toThrow(/closed/);
	});

	it("never starves anybody: whatever is freed, waiters end in order or at their deadline", () => {
		const request = fc.record({
			size: fc.integer({ min: 1, max: 3 }),
			patience: fc.integer({ min: 1, max: 60 }),
		});
		fc.assert(
			fc.property(
				fc.array(request, { minLength: 1, maxLength: 8 }),
				fc.array(fc.nat(3)),
				(requests, frees) => {
					const { it, held, story } = full(4);
					requests.forEach(({ size, patience }, i) => {
						wait(
							it,
							story,
							`w${i}`,
							String.fromCharCode(112 + i),
							it.clock.now() + patience,
							Array(size).fill("kv"),
						);
					});
					for (const index of frees) {
						const block = held[index] as Residency;
						if (block.claims > 0) it.cache.unclaim(block);
						it.clock.advance(1);
						it.cache.settle();
						it.cache.assertConsistent();
					}
					it.clock.advance(100);
					it.cache.settle();
					expect(story).toHaveLength(requests.length);
					const got = story.filter((line) => line.includes("got"));
					expect(got).toEqual([...got].sort());
					expect(it.clock.pending).toBe(0);
				},
			),
			{ numRuns: 200 },
		);
	});
});
