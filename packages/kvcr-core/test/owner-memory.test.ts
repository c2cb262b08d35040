import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BlockMeta, MemoryRegion } from "../src/index.js";
import { keyText, ProgressFailedError } from "../src/index.js";
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
	SMALL,
} from "./support/cluster.js";
import { Wire } from "./support/wire.js";

const A = key(1n);
const B = key(2n);
const POOLS = [
	{ name: "kv", slotBytes: SLOT, slotCount: 16 },
	{ name: "indexer", slotBytes: SMALL, slotCount: 16 },
];
const LAYOUT = ["kv:k", "kv:v", "indexer"];

let cluster: Cluster;
let source: Peer;
let target: Peer;
let kv: MemoryRegion;
let indexer: MemoryRegion;

beforeEach(async () => {
	cluster = new Cluster();
	source = await cluster.peer("source", { pools: POOLS });
	const agent = cluster.fabric.agent("agent-target");
	kv = await agent.createRegion({
		label: "kv:*",
		elementBytes: SLOT,
		elementCount: 8,
	});
	indexer = await agent.createRegion({
		label: "indexer",
		elementBytes: SMALL,
		elementCount: 8,
	});
	target = await cluster.peer("target", {
		agent,
		pools: POOLS,
		frameworkRegions: [kv, indexer],
	});
	for (const peer of [source]) depositLaidOut(peer, A, B);
});
afterEach(() => cluster.close());

function pieceBytes(one: typeof A, label: string): Uint8Array {
	const at = LAYOUT.indexOf(label);
	return content(one, label === "indexer" ? SMALL : SLOT, at);
}

function depositLaidOut(peer: Peer, ...keys: readonly (typeof A)[]): void {
	peer.kvcr.deposit(
		keys.map((one) => ({
			key: one,
			pieces: LAYOUT.map((label) => ({ label, bytes: pieceBytes(one, label) })),
		})),
	);
	peer.adapter.learn(...keys);
	cluster.settle();
}

function same(
	region: MemoryRegion,
	element: number,
	bytes: Uint8Array,
): boolean {
	return Buffer.compare(region.element(element), bytes) === 0;
}

function advise(...hashes: readonly bigint[]): void {
	target.kvcr.discardHint("r");
	target.kvcr.submitHint(hint(source.endpoint, hashes), "r");
}

describe("deliver", () => {
	it("takes a subset of the labels from a peer, in any order, and nothing else is written", () => {
		advise(1n);
		const handle = target.kvcr.deliver(
			[
				{
					key: A,
					pieces: [
						{ label: "indexer", region: indexer, element: 3 },
						{ label: "kv:v", region: kv, element: 5 },
					],
				},
			],
			{ requestId: "r" },
		);
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(same(indexer, 3, pieceBytes(A, "indexer"))).toBe(true);
		expect(same(kv, 5, pieceBytes(A, "kv:v"))).toBe(true);
		for (const element of [0, 1, 2, 3, 4, 6, 7])
			expect(same(kv, element, new Uint8Array(SLOT))).toBe(true);
		expect(target.kvcr.stats().cache?.ready).toBe(0);
	});

	it("takes a subset of the labels from managed memory here", () => {
		depositLaidOut(target, A);
		const handle = target.kvcr.deliver([
			{ key: A, pieces: [{ label: "kv:k", region: kv, element: 1 }] },
		]);
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(same(kv, 1, pieceBytes(A, "kv:k"))).toBe(true);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("of a label the block does not have fails, here and at the source", () => {
		depositLaidOut(target, B);
		advise(1n);
		const pieces = [{ label: "kv:other", region: kv, element: 1 }];
		const handle = target.kvcr.deliver(
			[
				{ key: A, pieces },
				{
					key: B,
					pieces: [{ label: "kv:other", region: kv, element: 2 }],
				},
			],
			{ requestId: "r" },
		);
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual([
			"not_at_source",
			"layout_mismatch",
		]);
		expect(same(kv, 1, new Uint8Array(SLOT))).toBe(true);
	});

	it("a fill may not take a subset: the layouts must match label by label", () => {
		advise(1n);
		const handle = target.kvcr.fetch([A], {
			requestId: "r",
			expectedLayout: ["kv:k", "kv:v"],
		});
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["not_at_source"]);
		const right = target.kvcr.fetch([B], {
			requestId: "r",
			expectedLayout: LAYOUT,
		});
		cluster.settle();
		expect(outcomesOf(target, right)).toEqual(["no_source"]);
	});

	it("a block with pieces of another size at the source is not there, and nothing is written", async () => {
		const small = await cluster.peer("small", {
			pools: [{ name: "kv", slotBytes: SMALL, slotCount: 4 }],
		});
		small.kvcr.deposit([
			{ key: A, pieces: [{ label: "kv", bytes: content(A, SMALL) }] },
		]);
		cluster.settle();
		target.kvcr.submitHint(hint(small.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], {
			requestId: "r",
			expectedLayout: ["kv"],
		});
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["not_at_source"]);
		expect(small.agent.writes).toEqual([]);
		expect(small.warnings?.join()).toContain("another layout");
		expect(leftovers(small)).toEqual(NOTHING_LEFT);
	});

	it("joins a fill that is under way", async () => {
		const slow = await cluster.peer("slow", {
			pools: POOLS,
			agentOptions: { mode: "manual" },
		});
		depositLaidOut(slow, A);
		target.kvcr.submitHint(hint(slow.endpoint, [1n]), "r");
		const fetched = target.kvcr.fetch([A], {
			requestId: "r",
			expectedLayout: LAYOUT,
		});
		cluster.settle();
		const delivered = target.kvcr.deliver([
			{ key: A, pieces: [{ label: "kv:v", region: kv, element: 0 }] },
		]);
		cluster.settle();
		expect(slow.agent.writes).toHaveLength(1);
		slow.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, fetched)).toEqual(["SUCCESS"]);
		expect(outcomesOf(target, delivered)).toEqual(["SUCCESS"]);
		expect(same(kv, 0, pieceBytes(A, "kv:v"))).toBe(true);
		releaseAll(target, fetched);
	});

	it("whose call failed after it had joined a fill writes nothing when that fill completes", async () => {
		const slow = await cluster.peer("slow", {
			pools: POOLS,
			agentOptions: { mode: "manual" },
		});
		depositLaidOut(slow, A);
		target.kvcr.submitHint(hint(slow.endpoint, [1n, 2n]), "r");
		target.kvcr.fetch([A], { requestId: "r", expectedLayout: LAYOUT });
		cluster.settle();
		const agent = target.parts?.agent;
		if (agent === undefined) throw new Error("no agent");
		const { expectTraffic } = agent;
		agent.expectTraffic = () => {
			throw new Error("the device is gone");
		};
		expect(() =>
			target.kvcr.deliver(
				[A, B].map((one, element) => ({
					key: one,
					pieces: [{ label: "kv:v", region: kv, element }],
				})),
				{ requestId: "r" },
			),
		).toThrow(ProgressFailedError);
		agent.expectTraffic = expectTraffic;
		kv.element(0).fill(7);
		target.polling = false;
		slow.agent.writes[0]?.complete();
		cluster.settle();
		const close = agent.close.bind(target.agent);
		let left: Uint8Array | undefined;
		agent.close = () => {
			left = kv.element(0).slice();
			return close();
		};
		const closing = target.kvcr.close();
		await cluster.clock.advanceAsync(10_000);
		await closing;
		expect(left).toEqual(new Uint8Array(SLOT).fill(7));
	});

	it("of very many pieces goes out in several requests, none above what a message holds", async () => {
		const wide = Array.from({ length: 128 }, (_, i) => `kv:${i}`);
		const pools = [{ name: "kv", slotBytes: 8, slotCount: 25_600 }];
		const agent = cluster.fabric.agent("agent-wide");
		const region = await agent.createRegion({
			label: "kv:*",
			elementBytes: 8,
			elementCount: 25_600,
		});
		const from = await cluster.peer("from", { pools });
		const to = await cluster.peer("wide", {
			agent,
			pools: [{ ...pools[0], slotCount: 0 } as never],
			frameworkRegions: [region],
		});
		const keys = Array.from({ length: 200 }, (_, i) => key(BigInt(i)));
		from.kvcr.deposit(
			keys.map((one, i) => ({
				key: one,
				pieces: wide.map((label, piece) => ({
					label,
					bytes: content(one, 8, piece + i),
				})),
			})),
		);
		from.adapter.learn(...keys);
		cluster.settle();
		const wire = new Wire(cluster);
		to.kvcr.submitHint(
			hint(
				from.endpoint,
				keys.map((_, i) => BigInt(i)),
			),
			"r",
		);
		const handle = to.kvcr.deliver(
			keys.map((one, i) => ({
				key: one,
				pieces: wide.map((label, piece) => ({
					label,
					region,
					element: i * 128 + piece,
				})),
			})),
			{ requestId: "r" },
		);
		cluster.run(200);
		expect(new Set(outcomesOf(to, handle))).toEqual(new Set(["SUCCESS"]));
		const requests = wire.log.filter(
			(seen) => seen.message.type === "start_write",
		);
		expect(requests.length).toBeGreaterThan(1);
		for (const { bytes } of requests)
			expect(bytes.byteLength).toBeLessThan(1 << 20);
		for (const [i, one] of keys.entries())
			for (const piece of [0, 127])
				expect(same(region, i * 128 + piece, content(one, 8, piece + i))).toBe(
					true,
				);
	});
});

describe("deposit", () => {
	it("takes blocks from framework regions, and with noEvict keeps them until released", async () => {
		for (const [piece, label] of LAYOUT.slice(0, 2).entries())
			kv.element(piece).set(pieceBytes(A, label));
		indexer.element(0).set(pieceBytes(A, "indexer"));
		const handle = target.kvcr.deposit(
			[
				{
					key: A,
					pieces: [
						{ label: "kv:k", region: kv, element: 0 },
						{ label: "kv:v", region: kv, element: 1 },
						{ label: "indexer", region: indexer, element: 0 },
					],
				},
			],
			{ noEvict: true },
		);
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		// A flood of others cannot push it out.
		for (let i = 10; i < 40; i += 1) depositLaidOut(target, key(BigInt(i)));
		expect(target.kvcr.query([A])).toMatchObject([{ status: "HIT" }]);
		const check = target.kvcr.fetch([A]);
		cluster.settle();
		expect(hasRightBytes(entriesOf(target, check)?.[0])).toBe(true);
		releaseAll(target, check);
		releaseAll(target, handle);
		for (let i = 40; i < 60; i += 1) depositLaidOut(target, key(BigInt(i)));
		expect(target.kvcr.query([A])).toEqual([{ status: "MISS" }]);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("of a block that is here already succeeds without a copy, and of another layout fails", () => {
		depositLaidOut(target, A);
		const other = target.kvcr.deposit([
			{
				key: A,
				pieces: [{ label: "indexer", bytes: pieceBytes(A, "indexer") }],
			},
		]);
		const again = target.kvcr.deposit([
			{
				key: A,
				pieces: LAYOUT.map((label) => ({
					label,
					bytes: new Uint8Array(label === "indexer" ? SMALL : SLOT),
				})),
			},
		]);
		cluster.settle();
		expect(outcomesOf(target, other)).toEqual(["layout_mismatch"]);
		expect(outcomesOf(target, again)).toEqual(["SUCCESS"]);
		const check = target.kvcr.fetch([A]);
		cluster.settle();
		expect(hasRightBytes(entriesOf(target, check)?.[0])).toBe(true);
		releaseAll(target, check);
	});

	it("that waited for a fill which failed makes its own try, and keeps its promise of noEvict", async () => {
		const slow = await cluster.peer("slow", {
			pools: POOLS,
			agentOptions: { mode: "manual" },
		});
		depositLaidOut(slow, A);
		target.kvcr.submitHint(hint(slow.endpoint, [1n]), "r");
		const fetched = target.kvcr.fetch([A], {
			requestId: "r",
			expectedLayout: LAYOUT,
		});
		cluster.settle();
		const block = {
			key: A,
			pieces: LAYOUT.map((label) => ({ label, bytes: pieceBytes(A, label) })),
		};
		const plain = target.kvcr.deposit([block]);
		const kept = target.kvcr.deposit([block], { noEvict: true });
		const dropped = target.kvcr.deposit([block]);
		cluster.settle();
		for (const handle of [plain, kept])
			expect(outcomesOf(target, handle)).toBeUndefined();
		target.kvcr.abort(dropped);
		slow.agent.writes[0]?.fail();
		cluster.settle();
		expect(outcomesOf(target, fetched)).toEqual(["transfer_failed"]);
		expect(outcomesOf(target, plain)).toEqual(["SUCCESS"]);
		expect(outcomesOf(target, kept)).toEqual(["SUCCESS"]);
		expect(outcomesOf(target, dropped)).toEqual(["aborted"]);
		expect(target.kvcr.stats().cache?.claims).toBe(1);
		const check = target.kvcr.fetch([A]);
		cluster.settle();
		expect(hasRightBytes(entriesOf(target, check)?.[0])).toBe(true);
		for (const handle of [check, kept]) releaseAll(target, handle);
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("that waited for a fill whose slots may still be written fails with it, and leaves them alone", async () => {
		const slow = await cluster.peer("slow", {
			pools: POOLS,
			agentOptions: { mode: "manual" },
		});
		depositLaidOut(slow, A);
		target.kvcr.submitHint(hint(slow.endpoint, [1n]), "r");
		target.kvcr.fetch([A], { requestId: "r", expectedLayout: LAYOUT });
		cluster.settle();
		const handle = target.kvcr.deposit([
			{
				key: A,
				pieces: LAYOUT.map((label) => ({ label, bytes: pieceBytes(A, label) })),
			},
		]);
		cluster.run(1_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(target.kvcr.stats().cache?.discarding).toBe(1);
		slow.agent.writes[0]?.fail();
	});

	it("that the policy declines is dropped, and the rest of the batch goes on", async () => {
		const picky = await cluster.peer("picky", {
			policy: {
				decideIngest: (meta: BlockMeta) =>
					keyText(meta.key) === keyText(A) ? "drop" : "keep",
				evictionScore: () => 0,
				decideEviction: () => "evict",
				decideRecovery: () => "fail",
			} as never,
		});
		const handle = picky.kvcr.deposit(
			[A, B].map((one) => ({
				key: one,
				pieces: [{ label: "kv", bytes: content(one) }],
			})),
		);
		cluster.settle();
		expect(entriesOf(picky, handle)?.map((one) => one.status)).toEqual([
			"DROPPED",
			"SUCCESS",
		]);
	});
});

describe("large copies", () => {
	const MIB = 1 << 20;
	let big: Peer;
	let region: MemoryRegion;

	beforeEach(async () => {
		const agent = cluster.fabric.agent("agent-big");
		region = await agent.createRegion({
			label: "kv",
			elementBytes: MIB,
			elementCount: 12,
		});
		big = await cluster.peer("big", {
			agent,
			pools: [{ name: "kv", slotBytes: MIB, slotCount: 12 }],
			frameworkRegions: [region],
		});
	});

	function depositBig(count: number) {
		return big.kvcr.deposit(
			Array.from({ length: count }, (_, i) => {
				region.element(i).fill(i + 1);
				return {
					key: key(BigInt(i)),
					pieces: [{ label: "kv", region, element: i }],
				};
			}),
		);
	}

	it("are made in slices between turns of the event loop", () => {
		const handle = depositBig(12);
		expect(big.kvcr.stats().cache?.ready).toBeLessThanOrEqual(1);
		let slices = 0;
		while (big.kvcr.stats().cache?.ready !== 12 && slices < 20) {
			cluster.clock.runNext();
			big.results.push(...big.kvcr.pollCompleted());
			slices += 1;
		}
		expect(slices).toBeGreaterThan(2);
		expect(new Set(outcomesOf(big, handle))).toEqual(new Set(["SUCCESS"]));
	});

	it("of a single block are cut as well, and arrive whole", async () => {
		const agent = cluster.fabric.agent("agent-huge");
		const huge = await agent.createRegion({
			label: "kv",
			elementBytes: 11 * MIB,
			elementCount: 2,
		});
		for (let i = 0; i < 2; i += 1) {
			const bytes = huge.element(i);
			for (let at = 0; at < bytes.length; at += 4096)
				bytes[at] = (at >> 12) + i;
		}
		const peer = await cluster.peer("huge", {
			agent,
			pools: [{ name: "kv", slotBytes: 11 * MIB, slotCount: 2 }],
			frameworkRegions: [huge],
		});
		peer.kvcr.deposit(
			[A, B].map((one, element) => ({
				key: one,
				pieces: [{ label: "kv", region: huge, element }],
			})),
		);
		let slices = 0;
		while (peer.kvcr.stats().cache?.ready !== 2 && slices < 20) {
			cluster.clock.runNext();
			peer.kvcr.pollCompleted();
			slices += 1;
		}
		expect(slices).toBeGreaterThanOrEqual(6);
		const handle = peer.kvcr.fetch([A, B]);
		cluster.settle();
		for (const [i, entry] of (entriesOf(peer, handle) ?? []).entries()) {
			const [piece] = entry.pieces ?? [];
			expect(
				piece !== undefined &&
					Buffer.compare(piece.region.element(piece.element), huge.element(i)),
			).toBe(0);
		}
		releaseAll(peer, handle);
	});

	it("of a deposit that is aborted read its memory no more: the slots are free, no block has wrong bytes", () => {
		const handle = depositBig(8);
		big.kvcr.abort(handle);
		big.results.push(...big.kvcr.pollCompleted());
		expect(outcomesOf(big, handle)?.at(-1)).toBe("aborted");
		// The operation is over: its memory may be used for something else.
		for (let i = 0; i < 8; i += 1) region.element(i).fill(0xee);
		cluster.settle();
		expect(big.kvcr.query([key(7n)])).toEqual([{ status: "MISS" }]);
		expect(leftovers(big)).toEqual(NOTHING_LEFT);
		const here = Array.from({ length: 8 }, (_, i) => key(BigInt(i))).filter(
			(one) => big.kvcr.query([one])[0]?.status === "HIT",
		);
		const check = big.kvcr.fetch(here);
		cluster.settle();
		for (const entry of entriesOf(big, check) ?? []) {
			const [piece] = entry.pieces ?? [];
			expect(piece?.region.element(piece.element)[3]).toBe(
				(entry.key.at(-1) ?? 0) + 1,
			);
		}
		// Nor is anything written to the slots, which may be those of other blocks by now.
		const pool = entriesOf(big, check)?.[0]?.pieces?.[0]?.region;
		const firsts = Array.from({ length: 12 }, (_, i) => pool?.element(i)[3]);
		expect(firsts).not.toContain(undefined);
		expect(firsts).not.toContain(0xee);
		releaseAll(big, check);
	});

	it("of a deposit that others wait for go on, and the aborted entry ends with them", () => {
		const handle = depositBig(8);
		const joined = big.kvcr.fetch([key(7n)]);
		big.kvcr.abort(handle);
		// Its memory is still being read for the other: the operation is not over.
		expect(big.kvcr.pollCompleted()).toEqual([]);
		cluster.settle();
		expect(outcomesOf(big, handle)?.at(-1)).toBe("aborted");
		expect(outcomesOf(big, joined)).toEqual(["SUCCESS"]);
		const { region: at, element } =
			entriesOf(big, joined)?.[0]?.pieces?.[0] ?? ({} as never);
		expect(at.element(element)[5]).toBe(8);
		releaseAll(big, joined);
		expect(leftovers(big)).toEqual(NOTHING_LEFT);
	});

	it("of a delivery that is aborted write its memory no more, and give their claims back", () => {
		const deposited = depositBig(8);
		cluster.settle();
		expect(outcomesOf(big, deposited)).toHaveLength(8);
		const handle = big.kvcr.deliver(
			Array.from({ length: 8 }, (_, i) => ({
				key: key(BigInt(i)),
				pieces: [{ label: "kv", region, element: 11 - i }],
			})),
		);
		big.kvcr.abort(handle, [key(7n)]);
		region.element(4).fill(0xee);
		cluster.settle();
		expect(outcomesOf(big, handle)?.at(-1)).toBe("aborted");
		expect(region.element(4)[9]).toBe(0xee);
		expect(leftovers(big)).toEqual(NOTHING_LEFT);
	});
});
