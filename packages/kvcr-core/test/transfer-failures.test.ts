import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LruPolicy } from "../src/index.js";
import { encodeWriteDone } from "../src/protocol/index.js";
import type { ScriptedWrite } from "../src/testing/index.js";
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
import { Wire } from "./support/wire.js";

const A = key(1n);
const B = key(2n);

let cluster: Cluster;
let source: Peer;
let target: Peer;
let wire: Wire;

beforeEach(async () => {
	cluster = new Cluster();
	wire = new Wire(cluster);
	source = await cluster.peer("source", { agentOptions: { mode: "manual" } });
	target = await cluster.peer("target", { frameworkElements: 8 });
	cluster.deposit(source, A, B);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

function fetch(...keys: readonly (typeof A)[]) {
	const hashes = keys.map((one) => target.adapter.decode(one));
	target.kvcr.discardHint("r");
	target.kvcr.submitHint(hint(source.endpoint, hashes), "r");
	const handle = target.kvcr.fetch(keys, { requestId: "r" });
	cluster.settle();
	return handle;
}

function deliver(element: number, one: typeof A) {
	const region = target.framework;
	if (region === undefined) throw new Error("no framework memory");
	target.kvcr.discardHint("r");
	target.kvcr.submitHint(
		hint(source.endpoint, [target.adapter.decode(one)]),
		"r",
	);
	const handle = target.kvcr.deliver(
		[{ key: one, pieces: [{ label: "kv", region, element }] }],
		{ requestId: "r" },
	);
	cluster.settle();
	return handle;
}

function onlyWrite(): ScriptedWrite {
	const [write] = source.agent.writes;
	if (write === undefined) throw new Error("nothing is being written");
	return write;
}

function counter(peer: Peer, name: string): number {
	return peer.kvcr.stats().counters[name] ?? 0;
}

function quarantined(peer: Peer): number | undefined {
	return peer.kvcr.stats().cache?.pools[0]?.quarantined;
}

describe("the operation deadline at the target", () => {
	it("fails the waiters of a fill, probes the source once, and keeps the slot until the write is known to be over", () => {
		source.kvcr.lockState();
		const handle = fetch(A);
		wire.lose("write_probe");
		cluster.run(999);
		expect(outcomesOf(target, handle)).toBeUndefined();
		cluster.run(1);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		cluster.run(3_000);
		expect(wire.of("write_probe")).toHaveLength(1);
		expect(target.kvcr.stats().transfers.pulls).toEqual({ cancelling: 1 });
		expect(target.kvcr.stats().cache?.discarding).toBe(1);
		expect(quarantined(target)).toBe(1);
	});

	it("ends the advice at once: nothing else is asked of a source that did not answer in time", () => {
		fetch(A);
		wire.lose("write_probe");
		cluster.run(999);
		const asked = { requestId: "r" };
		target.kvcr.submitHint(hint(source.endpoint, [2n]), "r");
		expect(target.kvcr.query([B], asked)).toMatchObject([
			{ status: "FETCHABLE" },
		]);
		cluster.run(1);
		expect(target.kvcr.stats().transfers.pulls).toEqual({ cancelling: 1 });
		expect(target.kvcr.query([B], asked)).toMatchObject([{ status: "MISS" }]);
	});

	it("fails the caller of a delivery at the abandonment deadline only, because its memory is not safe before", () => {
		const handle = deliver(0, A);
		wire.lose("write_probe");
		source.agent.mode = "manual";
		cluster.run(4_990);
		expect(outcomesOf(target, handle)).toBeUndefined();
		cluster.run(10);
		expect(outcomesOf(target, handle)).toEqual(["uncertain"]);
	});

	it("is not extended by intermediate replies", () => {
		wire.hold("start_write");
		const handle = fetch(A);
		cluster.run(900);
		// The source answers everything but the end: acknowledgements are no progress.
		wire.release("start_write");
		cluster.run(99);
		expect(outcomesOf(target, handle)).toBeUndefined();
		expect(wire.of("target_metadata_ack").length).toBeGreaterThan(0);
		cluster.run(1);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
	});

	it("is told to the source as the time that is left, and the source keeps the shorter of both", async () => {
		const hasty = await cluster.peer("hasty", {
			operationTimeoutMs: 300,
			agentOptions: { mode: "manual" },
		});
		cluster.deposit(hasty, A);
		target.kvcr.submitHint(hint(hasty.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		const [request] = wire.of("start_write");
		expect(request?.remainingTimeoutMs).toBe(1_000);
		cluster.run(299);
		expect(hasty.agent.writes[0]?.cancelRequested).toBe(false);
		cluster.run(1);
		expect(hasty.agent.writes[0]?.cancelRequested).toBe(true);
		// The target is told, and waits no longer; its memory stays taken until the write is over.
		expect(outcomesOf(target, handle)).toEqual(["transfer_failed"]);
		expect(target.kvcr.stats().transfers.pulls).toEqual({ cancelling: 1 });
		expect(quarantined(target)).toBe(1);
		hasty.agent.writes[0]?.confirmCancel();
		cluster.settle();
		expect(leftovers(hasty)).toEqual(NOTHING_LEFT);
		// The other way round, and without a probe to tell: the target is the one with less time.
		wire.lose("write_probe");
		const asker = await cluster.peer("asker", { operationTimeoutMs: 300 });
		asker.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		asker.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		expect(wire.of("start_write").at(-1)?.remainingTimeoutMs).toBe(300);
		cluster.run(299);
		expect(onlyWrite().cancelRequested).toBe(false);
		cluster.run(1);
		expect(onlyWrite().cancelRequested).toBe(true);
	});

	it("in the same tick as the completion loses no transfer", () => {
		const handle = fetch(A);
		const startedAt = cluster.clock.now();
		// Armed now, this comes due in the tick of the deadline, behind it.
		let completed = false;
		cluster.clock.schedule(1_000 - 0.25, () => {
			completed = onlyWrite().complete();
			// The agent wakes its owner behind the deadline: everything is late but the bytes.
			cluster.clock.advance(0);
		});
		const wake = target.agent.takeNotifications.bind(target.agent);
		let early = 0;
		target.agent.takeNotifications = () => {
			// A process that was too busy to look before the deadline.
			if (cluster.clock.now() < startedAt + 1_000) {
				early += 1;
				return [];
			}
			return wake();
		};
		cluster.clock.advance(1_000);
		cluster.settle();
		expect([completed, early]).toEqual([true, 1]);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
		expect(wire.of("write_probe")).toEqual([]);
	});

	it("revives nothing when a success comes late, and counts it", () => {
		const handle = fetch(A);
		cluster.run(1_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		onlyWrite().complete();
		cluster.settle();
		expect(target.results.filter((one) => one.handle === handle)).toHaveLength(
			1,
		);
		expect(target.kvcr.query([A])).toEqual([{ status: "MISS" }]);
		expect(
			counter(
				target,
				'kvcr_notifications_dropped_total{reason="late_success"}',
			),
		).toBe(1);
		expect(target.kvcr.stats().transfers.pulls).toEqual({});
		expect(quarantined(target)).toBe(0);
	});
});

describe("the abandonment deadline", () => {
	it("reports the memory as uncertain once, and quiesced when its end is proven; the slot is free only then", () => {
		const handle = fetch(A);
		wire.lose("write_probe", "write_probe_ack");
		cluster.run(5_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(target.reports).toMatchObject([
			{
				state: "uncertain",
				side: "destination",
				elements: [{ label: "kv", element: 0, owner: "kvcr" }],
			},
		]);
		expect(target.kvcr.stats().transfers.pulls).toEqual({ quarantined: 1 });
		cluster.run(120_000, 1_000);
		// Elapsed time alone never makes memory safe to reuse.
		expect(quarantined(target)).toBe(1);
		expect(target.reports).toHaveLength(1);
		onlyWrite().confirmCancel();
		wire.pass("write_probe", "write_probe_ack");
		cluster.run(31_000, 1_000);
		expect(target.reports?.map((one) => one.state)).toEqual([
			"uncertain",
			"quiesced",
		]);
		expect(quarantined(target)).toBe(0);
		expect(target.kvcr.stats().transfers.pulls).toEqual({});
	});

	it("is reported to a listener that throws, and logged by a logger that throws, without harm to the transfer", async () => {
		const fail = (): never => {
			throw new Error("a listener out of order");
		};
		const logger = { debug: fail, info: fail, warn: fail, error: fail };
		for (const onTransferReport of [fail, undefined]) {
			target = await cluster.peer(`noisy ${onTransferReport}`, {
				logger,
				onTransferReport,
			});
			const handle = fetch(A);
			wire.lose("write_probe", "write_probe_ack");
			cluster.run(5_000);
			expect(outcomesOf(target, handle)).toEqual(["timeout"]);
			expect(quarantined(target)).toBe(1);
			source.agent.writes.at(-1)?.confirmCancel();
			wire.pass("write_probe", "write_probe_ack");
			cluster.run(31_000, 1_000);
			expect(quarantined(target)).toBe(0);
			target.kvcr.discardHint("r");
			expect(leftovers(target)).toEqual(NOTHING_LEFT);
		}
	});

	it("counts from the start of the operation, also when admission had to wait for capacity", async () => {
		const small = await cluster.peer("small", {
			slots: 1,
			policy: waitingPolicy(),
		});
		cluster.deposit(small, B);
		const held = small.kvcr.fetch([B]);
		cluster.settle();
		small.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const startedAt = cluster.clock.now();
		const handle = small.kvcr.fetch([A], { requestId: "r" });
		cluster.run(800);
		expect(small.kvcr.stats().cache?.waiting).toBe(1);
		releaseAll(small, held);
		cluster.settle();
		expect(source.agent.writes).toHaveLength(1);
		wire.lose("write_probe");
		cluster.run(200);
		expect(outcomesOf(small, handle)).toEqual(["timeout"]);
		cluster.run(startedAt + 5_000 - cluster.clock.now());
		expect(small.reports?.map((one) => one.state)).toEqual(["uncertain"]);
	});

	it("names framework memory too, and the caller is told that it must not be reused", () => {
		const handle = deliver(3, A);
		wire.lose("write_probe");
		cluster.run(5_000);
		expect(outcomesOf(target, handle)).toEqual(["uncertain"]);
		expect(target.reports?.at(-1)).toMatchObject({
			state: "uncertain",
			elements: [{ label: "kv", element: 3, owner: "framework" }],
		});
		onlyWrite().fail();
		cluster.run(10);
		expect(target.reports?.at(-1)?.state).toBe("quiesced");
		expect(outcomesOf(target, handle)).toEqual(["uncertain"]);
	});

	it("reports at the source what a write that cannot be stopped still reads", () => {
		fetch(A);
		cluster.run(1_000);
		expect(onlyWrite().cancelRequested).toBe(true);
		cluster.run(4_000);
		expect(source.reports).toMatchObject([
			{ state: "uncertain", side: "source", elements: [{ owner: "kvcr" }] },
		]);
		expect(source.kvcr.stats().cache?.claims).toBe(1);
		onlyWrite().confirmCancel();
		cluster.run(10);
		expect(source.reports?.map((one) => one.state)).toEqual([
			"uncertain",
			"quiesced",
		]);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});
});

describe("a probe", () => {
	it("of an operation the source never submitted is answered terminal, and frees the memory at once", () => {
		const hold = source.kvcr.lockState();
		source.polling = false;
		const handle = fetch(A);
		cluster.run(1_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		cluster.run(10);
		expect(wire.of("write_probe_ack")).toMatchObject([{ terminal: true }]);
		expect(target.kvcr.stats().transfers.pulls).toEqual({});
		expect(quarantined(target)).toBe(0);
		hold.release();
		source.polling = true;
		cluster.run(10);
		expect(source.agent.writes).toEqual([]);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("of a write under way is not terminal: the target waits for its end", () => {
		fetch(A);
		cluster.run(1_000);
		expect(wire.of("write_probe_ack")).toMatchObject([{ terminal: false }]);
		expect(quarantined(target)).toBe(1);
		onlyWrite().confirmCancel();
		cluster.settle();
		expect(quarantined(target)).toBe(0);
	});

	it("from the wrong endpoint, of an unknown operation, or before the deadline changes nothing", () => {
		const handle = fetch(A);
		const { opHandle } = wire.of("start_write")[0] ?? {};
		if (opHandle === undefined) throw new Error("nothing was requested");
		const header = {
			targetAgent: source.agent.name,
			senderIncarnation: source.kvcr.incarnation,
			senderControlEndpoint: source.endpoint,
		};
		const ack = {
			type: "write_probe_ack",
			header,
			opHandle,
			terminal: true,
		} as const;
		wire.forge(target, ack);
		cluster.settle();
		expect(target.kvcr.stats().transfers.pulls).toEqual({ requested: 1 });
		wire.lose("write_probe");
		cluster.run(1_000);
		wire.forge(target, {
			...ack,
			header: { ...header, senderControlEndpoint: "memory://other" },
		});
		wire.forge(target, {
			...ack,
			header: { ...header, senderIncarnation: target.kvcr.incarnation },
		});
		wire.forge(target, {
			...ack,
			opHandle: (opHandle + 1n) as typeof opHandle,
		});
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(quarantined(target)).toBe(1);
	});

	it("that brings metadata is acknowledged", () => {
		wire.lose("target_metadata_ack", "hashes_resolved");
		const handle = fetch(A);
		cluster.run(1_000);
		expect(outcomesOf(target, handle)).toEqual(["peer_unreachable"]);
		expect(wire.of("write_probe")).toEqual([]);
	});
});

describe("a refusal", () => {
	it("from another endpoint, without one that it echoes, or of an unknown operation is dropped and counted", () => {
		const handle = fetch(A);
		const [request] = wire.of("start_write");
		if (request === undefined) throw new Error("nothing was requested");
		const { opHandle } = request;
		const refusal = {
			type: "write_refused",
			header: {
				targetAgent: source.agent.name,
				senderIncarnation: source.kvcr.incarnation,
				senderControlEndpoint: source.endpoint,
			},
			opHandle,
		} as const;
		wire.forge(target, {
			...refusal,
			header: { ...refusal.header, senderControlEndpoint: "memory://other" },
		});
		const { senderControlEndpoint, ...anonymous } = refusal.header;
		expect(senderControlEndpoint).toBe(source.endpoint);
		wire.forge(target, { ...refusal, header: anonymous });
		wire.forge(target, {
			...refusal,
			opHandle: (opHandle - 1n) as typeof opHandle,
		});
		cluster.settle();
		expect(wire.of("start_write")).toHaveLength(1);
		expect(target.kvcr.stats().transfers.pulls).toEqual({ requested: 1 });
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_notifications_dropped_total{reason="refusal_unmatched"}': 2,
			'kvcr_control_dropped_total{reason="malformed"}': 1,
		});
		// The right one counts: nothing of the operation was submitted, and it is asked for again.
		wire.forge(target, refusal);
		cluster.settle();
		expect(wire.of("start_write")).toHaveLength(2);
		expect(source.agent.writes).toHaveLength(2);
		source.agent.writes[1]?.complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		source.agent.writes[0]?.fail();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
	});
});

describe("a fence", () => {
	it("refuses a start_write that its probe has overtaken", () => {
		wire.hold("start_write");
		const handle = fetch(A);
		cluster.run(1_010);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(wire.of("write_probe_ack")).toMatchObject([{ terminal: true }]);
		expect(quarantined(target)).toBe(0);
		wire.release("start_write");
		cluster.run(10);
		expect(source.agent.writes).toEqual([]);
		expect(
			counter(
				source,
				'kvcr_writes_refused_total{side="source",reason="fenced"}',
			),
		).toBe(1);
	});

	it("keeps a start_write that arrives again after its end from writing into memory that was reused", () => {
		const handle = fetch(A);
		onlyWrite().complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		const [request] = wire.log.filter(
			(seen) => seen.message.type === "start_write",
		);
		if (request === undefined) throw new Error("nothing was requested");
		wire.replay(request);
		cluster.settle();
		expect(source.agent.writes).toEqual([]);
		expect(source.kvcr.stats().transfers.writes).toBe(0);
	});

	it("lets an operation through that was sent before one that was probed, as long as it was not probed itself", () => {
		wire.hold("start_write");
		const first = fetch(A);
		const second = fetch(B);
		// Only the second is given up on.
		target.kvcr.abort(second);
		cluster.settle();
		expect(wire.of("write_probe")).toHaveLength(1);
		wire.release("start_write");
		cluster.settle();
		expect(source.agent.writes).toHaveLength(1);
		onlyWrite().complete();
		cluster.settle();
		expect(outcomesOf(target, first)).toEqual(["SUCCESS"]);
		expect(outcomesOf(target, second)).toEqual(["aborted"]);
	});
});

describe("the end of a write", () => {
	it("counts only from the agent that was asked", async () => {
		const other = await cluster.peer("other");
		const handle = fetch(A);
		const remote = other.agent.addRemote(target.agent.localMetadata(), []);
		other.agent.notify(remote, onlyWrite().request.notification);
		cluster.settle();
		expect(outcomesOf(target, handle)).toBeUndefined();
		expect(
			counter(target, 'kvcr_notifications_dropped_total{reason="wrong_agent"}'),
		).toBe(1);
		onlyWrite().complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
	});

	it("that comes twice, or for nobody, is counted and changes nothing", () => {
		const handle = fetch(A);
		const { notification } = onlyWrite().request;
		onlyWrite().complete();
		cluster.settle();
		const remote = source.agent.addRemote(target.agent.localMetadata(), []);
		source.agent.notify(remote, notification);
		source.agent.notify(remote, Buffer.from("KVCR:nonsense"));
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_notifications_dropped_total{reason="unknown_operation"}': 1,
			'kvcr_notifications_dropped_total{reason="malformed"}': 1,
		});
	});

	it("as a failure fails the keys, frees the slots and keeps the source's copy", () => {
		const handle = fetch(A, B);
		onlyWrite().fail("a cable was pulled");
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual([
			"transfer_failed",
			"transfer_failed",
		]);
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
		expect(source.kvcr.query([A, B])).toMatchObject([
			{ status: "HIT" },
			{ status: "HIT" },
		]);
	});

	it("that completes part of the keys fails the rest as not at the source, and they are not asked for again", () => {
		const C = key(3n);
		const handle = fetch(A, C);
		onlyWrite().complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS", "not_at_source"]);
		expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
		const before = wire.of("start_write").length;
		const again = target.kvcr.fetch([C], { requestId: "r" });
		cluster.settle();
		expect(outcomesOf(target, again)).toEqual(["no_source"]);
		expect(wire.of("start_write")).toHaveLength(before);
	});

	it("with indices that were never asked for is a failure", () => {
		const handle = fetch(A);
		const { remote } = onlyWrite().request;
		const { opHandle } = wire.of("start_write")[0] ?? {};
		if (opHandle === undefined) throw new Error("nothing was requested");
		source.agent.notify(
			remote,
			encodeWriteDone({ opHandle, success: true, completedIndices: [0, 7] }),
		);
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["transfer_failed"]);
	});

	it("may come after the caller gave up on a write the source could not stop: then the memory is safe, and stays failed", () => {
		const handle = deliver(0, A);
		cluster.run(1_000);
		expect(onlyWrite().cancelRequested).toBe(true);
		expect(outcomesOf(target, handle)).toBeUndefined();
		onlyWrite().complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(Buffer.from(target.framework?.element(0) ?? [])).toEqual(
			Buffer.from(content(A, SLOT)),
		);
	});
});

function waitingPolicy(): LruPolicy {
	const policy = new LruPolicy();
	policy.decideRecovery = () => "wait";
	return policy;
}
