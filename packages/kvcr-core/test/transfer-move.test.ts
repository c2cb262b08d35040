import { afterEach, beforeEach, describe, expect, it } from "vitest";
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
} from "./support/cluster.js";
import { Wire } from "./support/wire.js";

const A = key(1n);
const B = key(2n);

let cluster: Cluster;
let wire: Wire;
let source: Peer;
let target: Peer;

beforeEach(async () => {
	cluster = new Cluster();
	wire = new Wire(cluster);
	source = await cluster.peer("source", { agentOptions: { mode: "manual" } });
	target = await cluster.peer("target");
	cluster.deposit(source, A, B);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

function move(peer: Peer, keys: readonly (typeof A)[], more: object = {}) {
	peer.kvcr.discardHint("r");
	peer.kvcr.submitHint(
		hint(
			source.endpoint,
			keys.map((one) => peer.adapter.decode(one)),
			{ mode: "move", ...more },
		),
		"r",
	);
	const handle = peer.kvcr.fetch(keys, { requestId: "r" });
	cluster.settle();
	return handle;
}

function complete(index = 0): void {
	source.agent.writes[index]?.complete();
	cluster.settle();
}

function at(peer: Peer, ...keys: readonly (typeof A)[]): string[] {
	return peer.kvcr.query(keys).map((one) => one.status);
}

/** Inventory of a peer as "+1 -2": hashes that came and went, in order. */
function inventory(peer: Peer): string {
	return (peer.inventory ?? [])
		.flatMap((event) =>
			event.keys.map(
				(one) => `${event.removed ? "-" : "+"}${peer.adapter.decode(one)}`,
			),
		)
		.join(" ");
}

describe("move", () => {
	it("drops the source's copy after the transfer completed, says so, and frees the slot", () => {
		const handle = move(target, [A]);
		expect(at(source, A)).toEqual(["HIT"]);
		complete();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
		expect(at(source, A, B)).toEqual(["MISS", "HIT"]);
		expect(inventory(source)).toBe("+1 +2 -1");
		expect(source.kvcr.stats().cache).toMatchObject({
			ready: 1,
			claims: 0,
			pools: [{ free: 15 }],
		});
	});

	it("by independent hint places the block and drops the source's copy", () => {
		target.kvcr.submitHint(hint(source.endpoint, [1n], { mode: "move" }));
		cluster.settle();
		complete();
		expect(at(target, A)).toEqual(["HIT"]);
		expect(at(source, A)).toEqual(["MISS"]);
		expect(inventory(target)).toBe("+1");
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("protects readers of the source's own framework: the copy goes when the last claim is released", () => {
		const reading = source.kvcr.fetch([A]);
		cluster.settle();
		move(target, [A]);
		complete();
		expect(at(source, A)).toEqual(["HIT"]);
		expect(source.kvcr.stats().cache?.retiring).toBe(1);
		expect(hasRightBytes(entriesOf(source, reading)?.[0])).toBe(true);
		expect(inventory(source)).toBe("+1 +2");
		releaseAll(source, reading);
		cluster.settle();
		expect(at(source, A)).toEqual(["MISS"]);
		expect(inventory(source)).toBe("+1 +2 -1");
	});

	it("protects noEvict holders", () => {
		const C = key(3n);
		const held = source.kvcr.deposit(
			[{ key: C, pieces: [{ label: "kv", bytes: content(C) }] }],
			{ noEvict: true },
		);
		source.adapter.learn(C);
		cluster.settle();
		const handle = move(target, [C]);
		complete();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		cluster.run(10_000, 500);
		expect(at(source, C)).toEqual(["HIT"]);
		releaseAll(source, held);
		cluster.settle();
		expect(at(source, C)).toEqual(["MISS"]);
	});

	it("protects another peer that is still reading", async () => {
		const other = await cluster.peer("other");
		move(target, [A]);
		const copying = move(other, [A], { mode: "copy" });
		expect(source.agent.writes).toHaveLength(2);
		complete(0);
		expect(at(source, A)).toEqual(["HIT"]);
		complete(0);
		expect(outcomesOf(other, copying)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(other, copying)?.[0])).toBe(true);
		expect(at(source, A)).toEqual(["MISS"]);
	});

	it("that is pending is cancelled by a later deposit of the source's own owner", () => {
		const reading = source.kvcr.fetch([A]);
		cluster.settle();
		move(target, [A]);
		complete();
		expect(source.kvcr.stats().cache?.retiring).toBe(1);
		cluster.deposit(source, A);
		expect(source.kvcr.stats().cache?.retiring).toBe(0);
		releaseAll(source, reading);
		cluster.settle();
		expect(at(source, A)).toEqual(["HIT"]);
		expect(inventory(source)).toBe("+1 +2");
	});

	it("that is pending is cancelled by a later fetch claim of the source's own owner", () => {
		const first = source.kvcr.fetch([A]);
		cluster.settle();
		move(target, [A]);
		complete();
		const second = source.kvcr.fetch([A]);
		cluster.settle();
		releaseAll(source, first);
		releaseAll(source, second);
		cluster.settle();
		expect(at(source, A)).toEqual(["HIT"]);
	});

	it("that is pending is not cancelled by peers or by a delivery: they only read", async () => {
		const other = await cluster.peer("other");
		const first = source.kvcr.fetch([A]);
		cluster.settle();
		move(target, [A]);
		complete();
		const copying = move(other, [A], { mode: "copy" });
		releaseAll(source, first);
		cluster.settle();
		expect(at(source, A)).toEqual(["HIT"]);
		complete();
		expect(outcomesOf(other, copying)).toEqual(["SUCCESS"]);
		expect(at(source, A)).toEqual(["MISS"]);
	});

	it("removes nothing for keys that were not completed", () => {
		const C = key(3n);
		const handle = move(target, [A, C]);
		complete();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS", "not_at_source"]);
		expect(at(source, A, B)).toEqual(["MISS", "HIT"]);
	});

	it("that fails, is cancelled or times out removes nothing, also when the bytes come late", () => {
		move(target, [A]);
		source.agent.writes[0]?.fail();
		cluster.settle();
		expect(at(source, A)).toEqual(["HIT"]);

		const aborted = move(target, [A]);
		target.kvcr.abort(aborted);
		cluster.settle();
		source.agent.writes[0]?.confirmCancel();
		cluster.settle();
		expect(at(source, A)).toEqual(["HIT"]);

		const late = move(target, [A]);
		cluster.run(1_000);
		expect(outcomesOf(target, late)).toEqual(["timeout"]);
		complete();
		expect(at(source, A)).toEqual(["HIT"]);
		expect(inventory(source)).toBe("+1 +2");
		target.kvcr.discardHint("r");
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("completes at the destination before the source has cleaned up, when its owner is away", () => {
		const hold = source.kvcr.lockState();
		// The write was admitted before; only the cleanup meets the lock.
		hold.release();
		const handle = move(target, [A]);
		const busy = source.kvcr.lockState();
		source.polling = false;
		source.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(at2(source)).toBe(1);
		busy.release();
		source.polling = true;
		cluster.settle();
		expect(at(source, A)).toEqual(["MISS"]);
		expect(inventory(source)).toBe("+1 +2 -1");

		function at2(peer: Peer): number | undefined {
			return peer.kvcr.stats().cache?.claims;
		}
	});

	it("asks for nothing that its destination has already, and takes nothing from the source then", () => {
		cluster.deposit(target, A);
		const before = wire.of("start_write").length;
		target.kvcr.submitHint(hint(source.endpoint, [1n], { mode: "move" }));
		cluster.settle();
		move(target, [A]);
		expect(wire.of("start_write")).toHaveLength(before);
		expect(at(source, A)).toEqual(["HIT"]);
		expect(
			target.kvcr.stats().counters[
				'kvcr_hint_outcomes_total{outcome="already_resident"}'
			],
		).toBe(1);
	});

	it("and copy of overlapping hashes in one envelope: every block arrives once, only what was moved goes", () => {
		const C = key(3n);
		cluster.deposit(source, C);
		target.kvcr.submitHint({
			protocol_version: "0.1",
			message_id: "m",
			actions: [
				action("copy", [1n, 2n]),
				action("move", [2n, 3n]),
				action("move", [3n]),
			],
		});
		cluster.settle();
		while (source.agent.writes.length > 0) complete();
		cluster.run(50);
		expect(at(target, A, B, C)).toEqual(["HIT", "HIT", "HIT"]);
		expect(inventory(target).split(" ").sort()).toEqual(["+1", "+2", "+3"]);
		// B was on its way as a copy when the move asked for it: nothing more was transferred, so nothing was moved.
		expect(at(source, A, B, C)).toEqual(["HIT", "HIT", "MISS"]);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("by two destinations at once: both get the bytes, the source drops its copy once", async () => {
		const other = await cluster.peer("other");
		const one = move(target, [A]);
		const two = move(other, [A]);
		complete(0);
		complete(0);
		expect(outcomesOf(target, one)).toEqual(["SUCCESS"]);
		expect(outcomesOf(other, two)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(other, two)?.[0])).toBe(true);
		expect(inventory(source)).toBe("+1 +2 -1");
	});

	it("reports in the order of the state changes, with batching too", async () => {
		const batched = await cluster.peer("batched", {
			inventoryReportIntervalMs: 500,
		});
		cluster.deposit(batched, A);
		target.kvcr.submitHint(hint(batched.endpoint, [1n], { mode: "move" }));
		cluster.run(50);
		cluster.deposit(batched, A);
		cluster.run(600);
		expect(inventory(batched)).toBe("+1 -1 +1");
	});
});

function action(mode: string, hashes: readonly bigint[]): object {
	return {
		action_id: mode,
		action_type: "kv.fetch",
		action_version: "1.0",
		payload: {
			source_control_endpoint: source.endpoint,
			block_hashes: hashes,
			mode,
			scope: "independent",
		},
	};
}
