import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FifoPolicy, FrequencyPolicy, LruPolicy } from "../src/cache/index.js";
import { FrequencySketch } from "../src/cache/policies/frequency-sketch.js";
import {
	InvalidArgumentError,
	type KVCachePolicy,
} from "../src/ports/index.js";
import { rig } from "./cache-kit.js";

/** Uses `a` of four blocks once, then adds one block. */
function afterUseOfA(policy: KVCachePolicy): string {
	const { cache, place, at, known } = rig({ kv: 4 }, { policy });
	place("abcd");
	cache.claim(at("a"));
	cache.unclaim(at("a"));
	place("e");
	return known();
}

describe("built-in policies", () => {
	it("LRU keeps what was used last, FIFO what came last", () => {
		expect(afterUseOfA(new LruPolicy())).toBe("acde");
		expect(afterUseOfA(new FifoPolicy())).toBe("bcde");
	});

	it("let a fetch wait for slots and a deposit fail", () => {
		for (const policy of [
			new LruPolicy(),
			new FifoPolicy(),
			new FrequencyPolicy(),
		]) {
			const failure = { missing: new Map(), failureCount: 1 };
			expect(policy.decideRecovery({ ...failure, source: "fetch" })).toBe(
				"wait",
			);
			expect(policy.decideRecovery({ ...failure, source: "deposit" })).toBe(
				"fail",
			);
		}
	});

	it("frequency keeps a shared block through a burst that LRU loses it to", () => {
		const survives = (policy: KVCachePolicy) => {
			const { cache, place, at, known, clock } = rig({ kv: 4 }, { policy });
			place("sbcdefgh"); // The policy learns how long unused blocks stay.
			place("s");
			for (let i = 0; i < 4; i++) {
				clock.advance(1);
				cache.claim(at("s"));
				cache.unclaim(at("s"));
			}
			cache.settle();
			place("ijklm");
			return known().includes("s");
		};
		expect(survives(new LruPolicy())).toBe(false);
		expect(survives(new FrequencyPolicy())).toBe(true);
	});

	it("frequency remembers a block that was evicted", () => {
		const policy = new FrequencyPolicy({ expectedBlocks: 64 });
		const { place, known } = rig({ kv: 4 }, { policy });
		place("sbcdefgh");
		expect(known()).toBe("efgh");
		place("s");
		place("ijkl");
		expect(known()).toContain("s");
	});

	it("frequency does not keep for ever what is no longer used", () => {
		const { cache, place, at, known, clock } = rig(
			{ kv: 4 },
			{ policy: new FrequencyPolicy() },
		);
		place("sbcdefgs");
		for (let i = 0; i < 1000; i++) {
			cache.claim(at("s"));
			cache.unclaim(at("s"));
		}
		clock.advance(1);
		const others = Array.from({ length: 128 }, (_, i) =>
			String.fromCharCode(128 + i),
		);
		place(others.join(""));
		expect(known()).not.toContain("s");
	});

	it("frequency refuses a senseless size", () => {
		for (const expectedBlocks of [0, 1.5, -1, 2 ** 25, Number.NaN])
			expect(() => new FrequencyPolicy({ expectedBlocks })).toThrow(
				InvalidArgumentError,
			);
	});
});

describe("the frequency sketch", () => {
	it("never counts too low, and saturates", () => {
		fc.assert(
			fc.property(
				fc.array(
					fc.tuple(
						fc.string({ maxLength: 8 }),
						fc.integer({ min: 1, max: 100 }),
					),
				),
				(additions) => {
					const sketch = new FrequencySketch(64);
					const exact = new Map<string, number>();
					for (const [key, amount] of additions) {
						sketch.add(key, amount);
						exact.set(key, Math.min(255, (exact.get(key) ?? 0) + amount));
					}
					for (const [key, count] of exact)
						expect(sketch.estimate(key)).toBeGreaterThanOrEqual(count);
				},
			),
		);
	});

	it("tells thousands of keys apart in the space it was given", () => {
		const sketch = new FrequencySketch(8192);
		for (let i = 0; i < 4096; i++) sketch.add(`key ${i}`, 1);
		let wrong = 0;
		for (let i = 0; i < 4096; i++)
			if (sketch.estimate(`other ${i}`) > 0) wrong += 1;
		expect(wrong).toBeLessThan(4096 * 0.06);
	});

	it("halves every counter once when the fractions add up to one", () => {
		const sketch = new FrequencySketch(64);
		const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
		for (const key of keys) sketch.add(key, 100);
		for (let i = 0; i < 128; i++) sketch.age(1 / 128);
		expect(keys.map((key) => sketch.estimate(key))).toEqual(keys.map(() => 50));
	});
});
