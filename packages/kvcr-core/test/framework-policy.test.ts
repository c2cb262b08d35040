import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { keyText } from "../src/index.js";
import {
	Cluster,
	content,
	entriesOf,
	hasRightBytes,
	hint,
	key,
	leftovers,
	NOTHING_LEFT,
	outcomesOf,
	type Peer,
	releaseAll,
	SLOT,
} from "./support/cluster.js";
import { ScriptedPins } from "./support/pins.js";
import { Wire } from "./support/wire.js";

const A = key(1n);
const B = key(2n);

let cluster: Cluster;
let wire: Wire;
let pins: ScriptedPins;
let source: Peer;
let target: Peer;

beforeEach(async () => {
	cluster = new Cluster();
	wire = new Wire(cluster);
	pins = new ScriptedPins();
	source = await cluster.peer("source", { frameworkElements: 8, pins });
	target = await cluster.peer("target", { slots: 2, frameworkElements: 8 });
	for (const one of [A, B]) pins.keep(source.framework as never, one);
	cluster.deposit(source, A, B);
});
afterEach(() => cluster.close());

/** Drops a block from the managed memory of a peer, as an eviction would. */
function evict(peer: Peer, one: typeof A): void {
	const cache = peer.parts?.cache;
	const residency = cache?.get(keyText(one));
	if (residency === undefined || cache?.drop(residency) !== true)
		throw new Error("the block cannot be dropped");
	expect(peer.kvcr.query([one])).toEqual([{ status: "MISS" }]);
}

function outcomes(): Record<string, number> {
	const prefix = 'kvcr_hint_outcomes_total{outcome="';
	return Object.fromEntries(
		Object.entries(target.kvcr.stats().counters)
			.filter(([name]) => name.startsWith(prefix))
			.map(([name, count]) => [name.slice(prefix.length, -2), count]),
	);
}

async function expectDrained(): Promise<void> {
	cluster.run(300);
	expect(leftovers(source)).toEqual(NOTHING_LEFT);
	expect(leftovers(target)).toEqual(NOTHING_LEFT);
	expect(pins.held.size).toBe(0);
}

const policies: readonly (readonly [
	name: string,
	more: object,
	falls: boolean,
])[] = [
	["by default", {}, true],
	["with allow_framework true", { allow_framework: true }, true],
	["with allow_framework false", { allow_framework: false }, false],
];

describe.each(policies)(
	"source G2 gone between resolution and admission, %s",
	(_name, more, falls) => {
		it("independent scope: removed", async () => {
			wire.hold("start_write");
			target.kvcr.submitHint(hint(source.endpoint, [1n, 2n], more));
			cluster.settle();
			expect(wire.of("hashes_resolved")).toHaveLength(1);
			evict(source, A);
			wire.release("start_write");
			cluster.run(100);
			expect(outcomes()).toEqual(
				falls ? { placed: 2 } : { placed: 1, transfer_failed: 1 },
			);
			// The same full key, or nothing at all.
			expect(pins.requests).toEqual(falls ? [[keyText(A)]] : []);
			const handle = target.kvcr.fetch(falls ? [A, B] : [B]);
			cluster.settle();
			for (const entry of entriesOf(target, handle) ?? [])
				expect(hasRightBytes(entry)).toBe(true);
			releaseAll(target, handle);
			await expectDrained();
		});

		it("independent scope: replaced by another block of the same router hash", async () => {
			const twin = key(1n, 7);
			wire.hold("start_write");
			target.kvcr.submitHint(hint(source.endpoint, [1n], more));
			cluster.settle();
			evict(source, A);
			source.adapter.forget(A);
			cluster.deposit(source, twin);
			wire.release("start_write");
			cluster.run(100);
			expect(outcomes()).toEqual(
				falls ? { placed: 1 } : { transfer_failed: 1 },
			);
			expect(target.kvcr.query([twin])).toEqual([{ status: "MISS" }]);
			expect(target.kvcr.query([A])).toMatchObject([
				{ status: falls ? "HIT" : "MISS" },
			]);
			await expectDrained();
		});

		it("independent scope: removed while the destination waits for capacity", async () => {
			const busy = [key(8n), key(9n)];
			cluster.deposit(target, ...busy);
			const held = target.kvcr.fetch(busy);
			cluster.settle();
			target.kvcr.submitHint(hint(source.endpoint, [1n], more));
			cluster.run(200);
			expect(target.kvcr.stats().cache?.waiting).toBe(1);
			expect(wire.of("start_write")).toEqual([]);
			evict(source, A);
			releaseAll(target, held);
			cluster.run(100);
			expect(wire.of("start_write").at(-1)?.allowFramework).toBe(falls);
			expect(outcomes()).toEqual(
				falls ? { placed: 1 } : { transfer_failed: 1 },
			);
			await expectDrained();
		});

		it("independent scope: removed while the write is refused and asked again with metadata", async () => {
			// The source restarts in the middle: it refuses the write, is introduced again, and its new life has no G2.
			wire.hold("start_write");
			target.kvcr.submitHint(hint(source.endpoint, [1n], more));
			cluster.settle();
			cluster.crash(source);
			pins = new ScriptedPins();
			source = await cluster.peer("source", { frameworkElements: 8, pins });
			pins.keep(source.framework as never, A);
			wire.release("start_write");
			cluster.run(300);
			const requests = wire.of("start_write");
			expect(requests).toHaveLength(2);
			expect(
				requests[1]?.peer ?? wire.of("target_metadata").at(-1)?.peer,
			).toBeDefined();
			expect(requests.map((one) => one.allowFramework)).toEqual([falls, falls]);
			expect(outcomes()).toEqual(
				falls ? { placed: 1 } : { transfer_failed: 1 },
			);
			expect(pins.requests).toEqual(falls ? [[keyText(A)]] : []);
			await expectDrained();
		});

		it("request scope: a later fetch and a later deliver follow the policy", async () => {
			target.kvcr.submitHint(hint(source.endpoint, [1n, 2n], more), "r");
			cluster.run(100);
			evict(source, A);
			evict(source, B);
			const fetched = target.kvcr.fetch([A], { requestId: "r" });
			const region = target.framework as never;
			const delivered = target.kvcr.deliver(
				[{ key: B, pieces: [{ label: "kv", region, element: 5 }] }],
				{ requestId: "r" },
			);
			cluster.run(100);
			const expected = falls ? ["SUCCESS"] : ["not_at_source"];
			expect(outcomesOf(target, fetched)).toEqual(expected);
			expect(outcomesOf(target, delivered)).toEqual(expected);
			expect(pins.requests).toHaveLength(falls ? 2 : 0);
			if (falls) {
				expect(hasRightBytes(entriesOf(target, fetched)?.[0])).toBe(true);
				expect(Buffer.from(target.framework?.element(5) ?? [])).toEqual(
					Buffer.from(content(B, SLOT)),
				);
			}
			releaseAll(target, fetched);
			target.kvcr.discardHint("r");
			await expectDrained();
		});

		it("request scope: the policy survives the wait for the source's owner", async () => {
			const hold = source.kvcr.lockState();
			source.polling = false;
			target.kvcr.submitHint(hint(source.endpoint, [1n], more), "r");
			const handle = target.kvcr.fetch([A], { requestId: "r" });
			cluster.run(200);
			expect(outcomesOf(target, handle)).toBeUndefined();
			evict(source, A);
			hold.release();
			source.polling = true;
			cluster.run(100);
			expect(outcomesOf(target, handle)).toEqual([
				falls ? "SUCCESS" : "not_at_source",
			]);
			releaseAll(target, handle);
			target.kvcr.discardHint("r");
			await expectDrained();
		});
	},
);

describe("incomplete source G2", () => {
	it("a block still being filled at the source counts as missing: denied fails, allowed reads the framework's", async () => {
		const third = await cluster.peer("third", {
			agentOptions: { mode: "manual" },
		});
		const C = key(3n);
		pins.keep(source.framework as never, C);
		cluster.deposit(third, C);
		source.kvcr.submitHint(hint(third.endpoint, [3n]), "fill");
		source.kvcr.fetch([C], { requestId: "fill" });
		cluster.settle();
		expect(source.kvcr.query([C])).toEqual([
			{ status: "FETCHING", tier: "DRAM" },
		]);
		for (const [request, allow] of [
			["denied", false],
			["allowed", true],
		] as const) {
			target.kvcr.submitHint(
				hint(source.endpoint, [3n], { allow_framework: allow }),
				request,
			);
			const handle = target.kvcr.fetch([C], { requestId: request });
			cluster.run(50);
			expect(outcomesOf(target, handle)).toEqual([
				allow ? "SUCCESS" : "not_at_source",
			]);
		}
		third.agent.writes[0]?.complete();
		cluster.settle();
	});

	it("a block in another layout fails, is given back at once, and does not stop the rest", async () => {
		const two = await cluster.peer("two", {
			pools: [
				{ name: "kv", slotBytes: SLOT, slotCount: 4 },
				{ name: "aux", slotBytes: SLOT, slotCount: 4 },
			],
			agentOptions: { mode: "manual" },
		});
		two.kvcr.deposit([
			{
				key: A,
				pieces: [
					{ label: "kv", bytes: content(A) },
					{ label: "aux", bytes: content(A, SLOT, 1) },
				],
			},
		]);
		cluster.deposit(two, B);
		target.kvcr.submitHint(hint(two.endpoint, [1n, 2n]), "r");
		const handle = target.kvcr.fetch([A, B], { requestId: "r" });
		cluster.settle();
		// While the write of the other one is under way.
		expect(two.kvcr.stats().cache?.claims).toBe(1);
		two.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["not_at_source", "SUCCESS"]);
		expect(leftovers(two)).toEqual(NOTHING_LEFT);
		expect(
			two.warnings?.filter((one) => one.includes("another layout")),
		).toHaveLength(1);
	});
});

describe("framework-only blocks", () => {
	it("are not resolvable, whatever the policy: nothing is pinned for a resolution", async () => {
		const C = key(3n);
		pins.keep(source.framework as never, C);
		source.adapter.learn(C);
		target.kvcr.submitHint(
			hint(source.endpoint, [3n], { allow_framework: true }),
		);
		cluster.run(100);
		expect(outcomes()).toEqual({ not_resident: 1 });
		expect(pins.requests).toEqual([]);
		await expectDrained();
	});
});
