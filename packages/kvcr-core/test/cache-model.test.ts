import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	ClaimError,
	type Residency,
	ResidencyStateError,
} from "../src/cache/index.js";
import { keyText } from "../src/ports/index.js";
import { type Rig, rig, ScriptedPolicy } from "./cache-kit.js";
import { CacheModel, type ModelBlock, type Moods } from "./cache-model.js";

const POOLS = { kv: 6, idx: 3, aux: 2 };
const KEYS = [..."abcdefghij"];
const LAYOUTS = [
	["kv"],
	["kv", "kv"],
	["idx"],
	["kv:0", "kv:1", "idx"],
	["aux", "kv"],
	["idx", "idx", "idx", "idx"],
];

const key = fc.constantFrom(...KEYS);
const keys = fc
	.uniqueArray(key, { maxLength: 3 })
	.map((list): ReadonlySet<string> => new Set(list));
const moods: fc.Arbitrary<Moods> = fc.record({
	drops: keys,
	throwsAtIngest: fc.oneof(
		{ weight: 4, arbitrary: fc.constant(new Set<string>()) },
		{ weight: 1, arbitrary: keys },
	),
	keeps: keys,
	throwsAtEviction: fc.oneof(
		{ weight: 4, arbitrary: fc.constant(new Set<string>()) },
		{ weight: 1, arbitrary: keys },
	),
});
const request = fc.record({ key, layout: fc.constantFrom(...LAYOUTS) });

const step = fc.oneof(
	{
		weight: 5,
		arbitrary: fc.record({
			do: fc.constant("admit" as const),
			requests: fc.array(request, { minLength: 1, maxLength: 4 }),
			protect: keys,
			moods,
		}),
	},
	{
		weight: 12,
		arbitrary: fc.record({
			do: fc.constantFrom(
				"complete",
				"complete",
				"fail",
				"discard",
				"free",
				"claim",
				"unclaim",
				"unclaim",
				"touch",
				"retire",
				"cancelRetire",
				"drop",
				"hold",
			),
			key,
		}),
	},
	{
		weight: 4,
		arbitrary: fc.record({
			do: fc.constant("place" as const),
			requests: fc.array(request, { minLength: 1, maxLength: 4 }),
		}),
	},
	{
		weight: 2,
		arbitrary: fc.record({
			do: fc.constant("release" as const),
			handle: fc.nat(7),
		}),
	},
	{ weight: 1, arbitrary: fc.record({ do: fc.constant("settle" as const) }) },
	{
		weight: 2,
		arbitrary: fc.record({
			do: fc.constant("advance" as const),
			ms: fc.integer({ min: 0, max: 3 }),
		}),
	},
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** The real cache and the model, driven alike. */
class Pair {
	readonly policy = new ScriptedPolicy();
	readonly real: Rig = rig(POOLS, { policy: this.policy });
	readonly model = new CacheModel(POOLS);
	readonly handles: bigint[] = [];

	run(step: Step): void {
		const { cache, clock } = this.real;
		if (step.do === "advance") clock.advance(step.ms);
		else if (step.do === "settle") cache.settle();
		else if (step.do === "release") this.#release(step.handle);
		else if (step.do === "admit") this.#admit(step);
		else if (step.do === "place") this.#place(step.requests);
		else {
			const residency = cache.get(step.key);
			const block = this.model.blocks.get(step.key);
			if (residency !== undefined && block !== undefined)
				this.#change(step.do, residency, block);
		}
	}

	/** Everything an outsider can see must agree. */
	compare(): void {
		const { cache } = this.real;
		cache.assertConsistent();
		const { pools, retiring, handles } = cache.stats();
		const blocks = KEYS.map((name) => cache.get(name)).filter(
			(r) => r !== undefined,
		);
		const free = ({ state, claims }: ModelBlock) =>
			state === "READY" && claims === 0;
		const seen = {
			blocks: blocks.map((r) => [
				r.keyText,
				r.state,
				r.claims,
				r.retiring,
				r.lastAccess,
				r.layout,
			]),
			pools,
			retiring,
			handles,
		};
		const expected = {
			blocks: [...this.model.blocks.values()]
				.sort((a, b) => (a.key < b.key ? -1 : 1))
				.map((b) => [
					b.key,
					b.state,
					b.claims,
					b.retiring,
					b.lastAccess,
					b.layout,
				]),
			pools: Object.entries(POOLS).map(([pool, total]) => ({
				pool,
				total,
				free: this.model.free(pool),
				reclaimable: this.model.used(pool, free),
				claimed: this.model.used(
					pool,
					(b) => b.state !== "DISCARDING" && !free(b),
				),
				quarantined: this.model.used(
					pool,
					({ state }) => state === "DISCARDING",
				),
			})),
			retiring: [...this.model.blocks.values()].filter((b) => b.retiring)
				.length,
			handles: this.model.handles.filter((held) => held.length > 0).length,
		};
		// Compared as text first: an assertion on objects of this size costs more than everything else together.
		if (JSON.stringify(seen) !== JSON.stringify(expected))
			expect(seen).toEqual(expected);
	}

	/** The inventory must have heard every change, per key in order. */
	compareEvents(): void {
		this.real.cache.settle();
		const heard = this.real.events.flatMap((event) =>
			event
				.slice(1)
				.split(",")
				.map((name) => event[0] + name),
		);
		for (const name of KEYS) {
			const of = (changes: readonly string[]) =>
				changes.filter((change) => change.endsWith(name));
			expect(of(heard)).toEqual(of(this.model.events));
		}
		expect(
			this.policy.calls.filter((call) => call.startsWith("ingested")).length,
		).toBe(this.model.events.filter((event) => event.startsWith("+")).length);
	}

	#admit({ requests, protect, moods }: Extract<Step, { do: "admit" }>): void {
		const failing = (set: ReadonlySet<string>, name: string) => {
			if (set.has(name)) throw new Error("mood");
		};
		this.policy.ingest = (meta) => {
			failing(moods.throwsAtIngest, keyText(meta.key));
			return moods.drops.has(keyText(meta.key)) ? "drop" : "keep";
		};
		this.policy.eviction = (meta) => {
			failing(moods.throwsAtEviction, keyText(meta.key));
			return moods.keeps.has(keyText(meta.key)) ? "keep" : "evict";
		};
		const outcomes = this.real.cache.admit(
			requests.map(({ key: name, layout }) => ({ keyText: name, layout })),
			"deposit",
			protect,
		);
		const expected = this.model.admit(
			requests,
			protect,
			moods,
			this.real.clock.now(),
		);
		expect(outcomes.map(({ kind }) => kind)).toEqual(expected);
	}

	/** Admits without moods, and makes whatever came in ready and evictable. */
	#place(requests: Extract<Step, { do: "place" }>["requests"]): void {
		const none = new Set<string>();
		const moods = {
			drops: none,
			throwsAtIngest: none,
			keeps: none,
			throwsAtEviction: none,
		};
		this.#admit({ do: "admit", requests, protect: none, moods });
		for (const { key: name } of requests) {
			const residency = this.real.cache.get(name);
			const block = this.model.blocks.get(name);
			if (residency?.state !== "FILLING" || block === undefined) continue;
			this.#change("complete", residency, block);
			while (block.claims > 0) this.#change("unclaim", residency, block);
		}
	}

	#release(index: number): void {
		const handle = this.handles[index];
		if (handle === undefined) return;
		const held = this.model.handles[index] as ModelBlock[];
		expect(this.real.cache.releaseHandle(handle)).toBe(held.length > 0);
		for (const block of held) this.model.unclaim(block);
		this.model.handles[index] = [];
	}

	/** Claims that no handle owns. */
	#loose(block: ModelBlock): number {
		return (
			block.claims -
			this.model.handles.flat().filter((held) => held === block).length
		);
	}

	#change(what: string, residency: Residency, block: ModelBlock): void {
		const { cache, clock } = this.real;
		const { model } = this;
		const filling = block.state === "FILLING";
		const ready = block.state === "READY";
		const idle = ready && block.claims === 0;
		const now = clock.now();
		switch (what) {
			case "complete":
				if (
					allowed(filling, ResidencyStateError, () =>
						cache.completeFill(residency),
					)
				)
					model.complete(block);
				break;
			case "fail":
				if (
					allowed(filling, ResidencyStateError, () => cache.failFill(residency))
				)
					model.leave(block);
				break;
			case "discard":
				if (
					!allowed(filling, ResidencyStateError, () =>
						cache.discardFill(residency),
					)
				)
					break;
				block.state = "DISCARDING";
				block.claims = 0;
				break;
			case "free": {
				const discarding = block.state === "DISCARDING";
				if (
					allowed(discarding, ResidencyStateError, () =>
						cache.freeDiscarded(residency),
					)
				)
					model.leave(block);
				break;
			}
			case "claim":
				if (allowed(filling || ready, ClaimError, () => cache.claim(residency)))
					model.claim(block, now);
				break;
			case "unclaim":
				// A claim that a handle owns is not ours to end.
				if (block.claims > 0 && this.#loose(block) === 0) break;
				if (
					allowed(block.claims > (filling ? 1 : 0), ClaimError, () =>
						cache.unclaim(residency),
					)
				)
					model.unclaim(block);
				break;
			case "touch":
				cache.touch(residency);
				model.touch(block, now);
				break;
			case "retire":
				expect(cache.retire(residency)).toBe(ready);
				if (idle) model.leave(block);
				else if (ready) block.retiring = true;
				break;
			case "cancelRetire":
				expect(cache.cancelRetire(residency)).toBe(block.retiring);
				block.retiring = false;
				break;
			case "drop":
				expect(cache.drop(residency)).toBe(idle);
				if (idle) model.leave(block);
				break;
			case "hold":
				if (!ready || this.handles.length >= 8) break;
				cache.claim(residency);
				model.claim(block, now);
				this.handles.push(cache.issueHandle([residency]));
				model.handles.push([block]);
				break;
			default:
				throw new Error(`unknown step ${what}`);
		}
	}
}

/** Runs a change that must work, or must throw this error. */
function allowed(
	possible: boolean,
	error: new (...args: never[]) => Error,
	run: () => void,
): boolean {
	if (possible) run();
	else expect(run).toThrow(error);
	return possible;
}

describe("managed G2", () => {
	it("does what the model does, whatever the order of admissions, fills, claims, retirements and policy moods", () => {
		fc.assert(
			fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
				const pair = new Pair();
				for (const each of steps) {
					pair.run(each);
					pair.compare();
				}
				pair.compareEvents();
			}),
			{ numRuns: 2000 },
		);
	}, 60_000);
});
