import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
	Cluster,
	content,
	hint,
	key,
	type Peer,
	SLOT,
} from "./support/cluster.js";

describe("fetch and deliver under advice of a request", () => {
	let cluster: Cluster;
	let source: Peer;
	let target: Peer;

	beforeEach(async () => {
		cluster = new Cluster();
		source = await cluster.peer("source");
		target = await cluster.peer("target");
	});
	afterEach(() => cluster.close());

	it("pulls named blocks, verifies their bytes and releases everything", () => {
		const keys = [key(1n), key(2n), key(13835058055282163713n)];
		cluster.deposit(source, ...keys);
		target.kvcr.submitHint(
			hint(source.endpoint, [1n, 2n, 13835058055282163713n]),
			"r1",
		);
		expect(target.kvcr.query(keys, { requestId: "r1" })).toEqual(
			keys.map(() => ({ status: "FETCHABLE", tier: "REMOTE_G2" })),
		);
		const handle = target.kvcr.fetch(keys, { requestId: "r1" });
		cluster.settle();
		const result = target.results.find((one) => one.handle === handle);
		expect(result?.entries.map((entry) => entry.status)).toEqual([
			"SUCCESS",
			"SUCCESS",
			"SUCCESS",
		]);
		for (const entry of result?.entries ?? []) {
			const piece = entry.pieces?.[0];
			expect(Buffer.from(piece?.region.element(piece.element) ?? [])).toEqual(
				Buffer.from(content(entry.key)),
			);
		}
		expect(target.kvcr.stats().cache?.claims).toBe(3);
		const handles =
			result?.entries.map((entry) => entry.releaseHandle as never) ?? [];
		expect(target.kvcr.release(handles).every((one) => one.released)).toBe(
			true,
		);
		expect(target.kvcr.release(handles).some((one) => one.released)).toBe(
			false,
		);
		target.kvcr.discardHint("r1");
		cluster.settle();
		expect(target.kvcr.stats()).toMatchObject({
			cache: { claims: 0, ready: 3 },
			advice: 0,
			operations: { open: 0 },
			transfers: { pulls: {}, writes: 0 },
		});
		expect(source.kvcr.stats()).toMatchObject({
			cache: { claims: 0 },
			transfers: { writes: 0 },
		});
	});

	it("places blocks of an independent hint while an unrelated request carries it", () => {
		const keys = [key(7n), key(8n)];
		cluster.deposit(source, ...keys);
		target.kvcr.submitHint(
			hint(source.endpoint, [7n, 8n, 9n], { scope: "independent" }),
			"carrier",
		);
		target.kvcr.discardHint("carrier");
		cluster.settle();
		expect(target.kvcr.query(keys)).toEqual(
			keys.map(() => ({ status: "HIT", tier: "DRAM" })),
		);
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="placed"}': 2,
			'kvcr_hint_outcomes_total{outcome="not_found"}': 1,
		});
		expect(target.kvcr.stats()).toMatchObject({
			advice: 0,
			hintsPending: 0,
			cache: { claims: 0 },
		});
	});

	it("delivers straight into framework memory from a peer", async () => {
		const agent = cluster.fabric.agent("agent-framework");
		const region = await agent.createRegion({
			label: "kv",
			elementBytes: SLOT,
			elementCount: 4,
		});
		const { Kvcr, silentLogger } = await import("../src/index.js");
		const kvcr = await Kvcr.create({
			agent,
			channel: cluster.network.channel("framework"),
			adapter: target.adapter,
			pools: [{ name: "kv", slotBytes: SLOT, slotCount: 0 }],
			frameworkRegions: [region],
			clock: cluster.clock,
			logger: silentLogger,
		});
		cluster.peers.push({
			...target,
			name: "framework",
			kvcr,
			agent,
			results: [],
		});
		const peer = cluster.peers.at(-1) as Peer;
		cluster.deposit(source, key(5n));
		kvcr.submitHint(hint(source.endpoint, [5n, 6n]), "r");
		const handle = kvcr.deliver(
			[
				{ key: key(5n), pieces: [{ label: "kv", region, element: 2 }] },
				{ key: key(6n), pieces: [{ label: "kv", region, element: 3 }] },
			],
			{ requestId: "r" },
		);
		cluster.settle();
		const result = peer.results.find((one) => one.handle === handle);
		expect(
			result?.entries.map(({ status, reason }) => [status, reason]),
		).toEqual([
			["SUCCESS", undefined],
			["FAILED", "not_at_source"],
		]);
		expect(Buffer.from(region.element(2))).toEqual(
			Buffer.from(content(key(5n))),
		);
		expect(kvcr.query([key(6n)], { requestId: "r" })).toEqual([
			{ status: "MISS" },
		]);
	});
});
