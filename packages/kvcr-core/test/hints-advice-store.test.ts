/** Advice by ID: merging, isolation, bounds, and nothing left behind. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	AdviceStore,
	type FetchAction,
	HashTable,
	requestAdviceId,
} from "../src/hints/index.js";
import type { AdviceId, RouterHash } from "../src/ports/index.js";
import { uint64 } from "./protocol-arbitraries.js";

const h = (value: number | bigint) => BigInt(value) as RouterHash;

function action(fields: Partial<FetchAction> = {}): FetchAction {
	return {
		source: "tcp://a:1",
		hashes: [h(1)],
		mode: "copy",
		scope: "request",
		allowFramework: true,
		noRetain: false,
		...fields,
	};
}

describe("the advice store", () => {
	it("merges hashes of the same source; each keeps the policy of its latest action", () => {
		const store = new AdviceStore();
		const id = store.record("r", action({ hashes: [h(1), h(2)] }));
		store.record(
			"r",
			action({ hashes: [h(2), h(3)], mode: "move", allowFramework: false }),
		);
		const advice = store.get(id);
		expect(advice?.source).toBe("tcp://a:1");
		expect(advice?.failed).toBe(false);
		expect(advice?.policyFor(h(1))).toEqual({
			mode: "copy",
			allowFramework: true,
		});
		expect(advice?.policyFor(h(2))).toEqual({
			mode: "move",
			allowFramework: false,
		});
		expect(advice?.policyFor(h(3))).toEqual({
			mode: "move",
			allowFramework: false,
		});
		expect(advice?.policyFor(h(4))).toBeUndefined();
		expect(store.size).toBe(1);
	});

	it("fails advice whose hints name different sources, and mixes nothing", () => {
		const store = new AdviceStore();
		const id = store.record("r", action());
		store.record("r", action({ source: "tcp://b:1", hashes: [h(2)] }));
		expect(store.get(id)?.failed).toBe(true);
		expect(store.get(id)?.source).toBe("tcp://a:1");
		expect(store.get(id)?.policyFor(h(2))).toBeUndefined();
	});

	it("keeps hashes for local tiers apart from those of a source", () => {
		const store = new AdviceStore();
		const { source: _none, ...local } = action({ hashes: [h(1), h(2)] });
		const id = store.record("r", local);
		expect(store.get(id)?.source).toBeUndefined();
		expect(store.get(id)?.policyFor(h(1))).toBeDefined();
		store.record("r", action({ hashes: [h(2)] }));
		expect(store.get(id)?.failed).toBe(false);
		expect(store.get(id)?.policyFor(h(1))).toBeUndefined();
		expect(store.get(id)?.policyFor(h(2))).toBeDefined();
		store.record("r", { ...local, hashes: [h(2)] });
		expect(store.get(id)?.policyFor(h(2))).toBeDefined();
	});

	it("gives private advice IDs that no request has", () => {
		const store = new AdviceStore();
		const id = store.createPrivate(action({ hashes: [h(7)] }));
		store.record(id, action({ hashes: [h(8)] }));
		store.record(id.slice("private:".length), action());
		expect(store.size).toBe(3);
		expect(store.get(id)?.policyFor(h(7))).toBeDefined();
		expect(store.get(id)?.policyFor(h(8))).toBeUndefined();
		expect(requestAdviceId(id)).not.toBe(id);
		fc.assert(
			fc.property(fc.string(), (requestId) => {
				expect(store.get(requestAdviceId(requestId))).not.toBe(store.get(id));
			}),
		);
	});

	it("isolates advice: what one learns, others do not", () => {
		const store = new AdviceStore();
		const first = store.createPrivate(action());
		const second = store.createPrivate(action());
		store.addMissing(first, ["k"]);
		store.fail(first);
		expect(store.get(first)?.missing.has("k")).toBe(true);
		expect(store.get(second)?.missing.size).toBe(0);
		expect(store.get(second)?.failed).toBe(false);
		store.clearMissing(first);
		expect(store.get(first)?.missing.size).toBe(0);
		expect(store.discard(first)).toBe(true);
		expect(store.get(first)).toBeUndefined();
		expect(store.get(second)).toBeDefined();
	});

	it("holds nothing after 10,000 hints that nobody followed were discarded", () => {
		const store = new AdviceStore();
		const ids: AdviceId[] = [];
		for (let i = 0; i < 10_000; i++)
			ids.push(store.record(`r${i}`, action({ hashes: [h(i)] })));
		expect(store.size).toBe(10_000);
		for (const id of ids) expect(store.discard(id)).toBe(true);
		expect(store.size).toBe(0);
		expect(store.discard(ids[0] as AdviceId)).toBe(false);
	});

	it("evicts the longest unchanged request advice beyond its bounds, and counts it", () => {
		const gone: AdviceId[] = [];
		const store = new AdviceStore({
			maxRequests: 2,
			onEvict: (id) => gone.push(id),
		});
		const kept = store.createPrivate(action());
		store.record("a", action());
		store.record("b", action());
		store.record("a", action());
		store.record("c", action());
		expect(gone).toEqual([requestAdviceId("b")]);
		expect(store.evicted).toBe(1);
		expect(store.get(requestAdviceId("a"))).toBeDefined();
		expect(store.get(kept)).toBeDefined();
	});

	it("bounds the hashes of all request advice together", () => {
		const store = new AdviceStore({ maxHashes: 10 });
		const hashes = Array.from({ length: 6 }, (_, i) => h(i));
		store.record("a", action({ hashes }));
		store.record("b", action({ hashes }));
		expect(store.get(requestAdviceId("a"))).toBeUndefined();
		store.discard(requestAdviceId("b"));
		store.record("c", action({ hashes }));
		// What was discarded or evicted makes room.
		store.record("d", action({ hashes: hashes.slice(0, 4) }));
		expect(store.evicted).toBe(1);
		expect(store.size).toBe(2);
		store.record("e", action());
		expect(store.get(requestAdviceId("c"))).toBeUndefined();
		expect(store.size).toBe(2);
	});

	it("ignores changes to advice that is gone", () => {
		const store = new AdviceStore();
		const id = store.createPrivate(action());
		store.discard(id);
		store.fail(id);
		store.addMissing(id, ["k"]);
		store.clearMissing(id);
		expect(store.get(id)).toBeUndefined();
		expect(store.size).toBe(0);
	});
});

describe("the hash table", () => {
	it("behaves like a map, through growth and collisions", () => {
		const near = fc.oneof(
			uint64,
			fc.integer({ min: 0, max: 40 }).map((i) => BigInt(i) << 32n),
			fc.integer({ min: 0, max: 40 }).map(BigInt),
		);
		fc.assert(
			fc.property(
				fc.array(fc.tuple(near, fc.integer({ min: 0, max: 254 }))),
				fc.array(near),
				(entries, probes) => {
					const model = new Map<bigint, number>();
					const table = new HashTable();
					for (const [hash, value] of entries) {
						expect(table.set(h(hash), value)).toBe(!model.has(hash));
						model.set(hash, value);
					}
					expect(table.size).toBe(model.size);
					for (const hash of [...model.keys(), ...probes])
						expect(table.get(h(hash))).toBe(model.get(hash));
				},
			),
			{ numRuns: 1_000 },
		);
	});
});
