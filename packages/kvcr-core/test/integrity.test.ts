import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AgentNotification, MemoryRegion } from "../src/index.js";
import { ScriptedTransferAgent } from "../src/testing/index.js";
import {
	Cluster,
	content,
	hint,
	key,
	type Peer,
	type PeerOptions,
	SLOT,
} from "./support/cluster.js";

describe("end-to-end integrity", () => {
	let cluster: Cluster;
	let source: Peer;

	beforeEach(async () => {
		cluster = new Cluster();
		source = await cluster.peer("source", { integrity: "verify" });
		cluster.deposit(source, key(1n), key(2n));
		cluster.settle();
	});
	afterEach(() => cluster.close());

	it("checks what an independent hint brings in, before the block becomes ready", async () => {
		const target = await cluster.peer("target", { integrity: "verify" });
		target.kvcr.submitHint(hint(source.endpoint, [1n, 2n]));
		cluster.settle();
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="placed"}': 2,
			'kvcr_integrity_checks_total{result="verified"}': 2,
		});
	});

	it("drops and counts a block in which one bit arrived flipped, and never serves it", async () => {
		const target = await flippingPeer(cluster, "target", {
			integrity: "verify",
		});
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		cluster.settle();
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="integrity_failed"}': 1,
			'kvcr_integrity_checks_total{result="failed"}': 1,
		});
		expect(target.kvcr.query([key(1n)])).toEqual([{ status: "MISS" }]);
		expect(target.kvcr.stats().cache).toMatchObject({
			ready: 0,
			claims: 0,
			filling: 0,
		});
		// The block can be fetched again, and is right this time.
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		cluster.settle();
		const handle = target.kvcr.fetch([key(1n)]);
		cluster.settle();
		const piece = target.results.find((one) => one.handle === handle)
			?.entries[0]?.pieces?.[0];
		expect(Buffer.from(piece?.region.element(piece.element) ?? [])).toEqual(
			Buffer.from(content(key(1n))),
		);
	});

	it("takes bytes as they are where either side does not check", async () => {
		const trusting = await flippingPeer(cluster, "trusting");
		trusting.kvcr.submitHint(hint(source.endpoint, [1n]));
		cluster.settle();
		expect(trusting.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="placed"}': 1,
		});
	});

	it("counts what arrives without a checksum", async () => {
		const silent = await cluster.peer("silent");
		cluster.deposit(silent, key(1n));
		const target = await cluster.peer("target", { integrity: "verify" });
		target.kvcr.submitHint(hint(silent.endpoint, [1n]));
		cluster.settle();
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="placed"}': 1,
			'kvcr_integrity_checks_total{result="unchecked"}': 1,
		});
	});

	it("knows the bytes of now, not those of a block that was evicted, hashed or not", async () => {
		const small = await cluster.peer("small", {
			integrity: "verify",
			pools: [{ name: "kv", slotBytes: SLOT, slotCount: 2 }],
		});
		const put = (hash: bigint, fill: number) => {
			const bytes = new Uint8Array(SLOT).fill(fill);
			small.kvcr.deposit([
				{ key: key(hash), pieces: [{ label: "kv", bytes }] },
			]);
			// Not settled: hashing has not begun when the next one pushes it out.
			small.kvcr.pollCompleted();
		};
		small.adapter.learn(key(1n), key(2n), key(3n));
		for (let round = 0; round < 20; round += 1) {
			for (const hash of [1n, 2n, 3n]) put(hash, round + Number(hash));
			if (round % 3 === 0) cluster.settle();
		}
		put(1n, 77);
		cluster.settle();
		const target = await cluster.peer("target", { integrity: "verify" });
		target.kvcr.submitHint(hint(small.endpoint, [1n]));
		cluster.settle();
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="placed"}': 1,
			'kvcr_integrity_checks_total{result="verified"}': 1,
		});
		const handle = target.kvcr.fetch([key(1n)]);
		cluster.settle();
		const piece = target.results.find((one) => one.handle === handle)
			?.entries[0]?.pieces?.[0];
		expect(piece?.region.element(piece.element)[0]).toBe(77);
	});

	it("of a move: the source has given its block up, and a damaged one is not kept for that", async () => {
		const target = await flippingPeer(cluster, "target", {
			integrity: "verify",
		});
		target.kvcr.submitHint(hint(source.endpoint, [1n], { mode: "move" }));
		cluster.settle();
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_hint_outcomes_total{outcome="integrity_failed"}': 1,
		});
		expect(target.kvcr.query([key(1n)])).toEqual([{ status: "MISS" }]);
		expect(source.kvcr.query([key(1n)])).toEqual([{ status: "MISS" }]);
		expect(target.kvcr.stats().cache).toMatchObject({ filling: 0, claims: 0 });
	});

	it("closing in the middle of a check leaves nothing behind", async () => {
		const target = await cluster.peer("target", { integrity: "verify" });
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		await target.kvcr.close();
		expect(target.kvcr.stats()).toMatchObject({
			hintsPending: 0,
			cache: { claims: 0, filling: 0 },
		});
	});

	it("refuses an unknown setting", async () => {
		await expect(
			cluster.peer("odd", { integrity: "sometimes" as never }),
		).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ARGUMENT",
			argument: "integrity",
		});
	});
});

/** A peer whose agent flips one bit of what the first write brings, between its bytes and its notification. */
async function flippingPeer(
	cluster: Cluster,
	name: string,
	options: PeerOptions = {},
): Promise<Peer> {
	const regions: MemoryRegion[] = [];
	const createRegion = vi.spyOn(
		ScriptedTransferAgent.prototype,
		"createRegion",
	);
	const peer = await cluster.peer(name, options);
	for (const { value } of createRegion.mock.results) regions.push(await value);
	createRegion.mockRestore();
	const take = peer.agent.takeNotifications.bind(peer.agent);
	let flipped = false;
	peer.agent.takeNotifications = (): readonly AgentNotification[] => {
		const notifications = take();
		if (notifications.length === 0 || flipped) return notifications;
		flipped = true;
		for (const region of regions) {
			for (let at = 0; at < region.elementCount; at += 1) {
				const bytes = region.element(at);
				if (bytes.some((byte) => byte !== 0)) bytes[5] = (bytes[5] ?? 0) ^ 0x10;
			}
		}
		return notifications;
	};
	return peer;
}
