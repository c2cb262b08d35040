import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Incarnation } from "../src/index.js";
import {
	Cluster,
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
const C = key(3n);

let cluster: Cluster;
let wire: Wire;

beforeEach(() => {
	cluster = new Cluster();
	wire = new Wire(cluster);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

function fetchFrom(target: Peer, source: Peer, one = A) {
	target.kvcr.discardHint("r");
	target.kvcr.submitHint(
		hint(source.endpoint, [target.adapter.decode(one)]),
		"r",
	);
	const handle = target.kvcr.fetch([one], { requestId: "r" });
	cluster.settle();
	return handle;
}

function forget(target: Peer, handle: never): void {
	releaseAll(target, handle);
	target.kvcr.discardHint("r");
}

describe("the first contact", () => {
	it("of many fetches at once with a peer not seen before adds it once, and all succeed", async () => {
		const source = await cluster.peer("source", { slots: 64 });
		const target = await cluster.peer("target", { slots: 64 });
		const keys = Array.from({ length: 50 }, (_, i) => key(BigInt(i + 1)));
		cluster.deposit(source, ...keys);
		let added = 0;
		const addRemote = source.agent.addRemote.bind(source.agent);
		source.agent.addRemote = (...args) => {
			added += 1;
			return addRemote(...args);
		};
		const handles = keys.map((one, i) => {
			target.kvcr.submitHint(
				hint(source.endpoint, [target.adapter.decode(one)]),
				`r${i}`,
			);
			return target.kvcr.fetch([one], { requestId: `r${i}` });
		});
		cluster.settle();
		for (const handle of handles)
			expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(added).toBe(1);
		expect(source.agent.remoteCount).toBe(1);
	});

	it("introduces the target again and again until the source answers", async () => {
		const source = await cluster.peer("source");
		const target = await cluster.peer("target");
		cluster.deposit(source, A);
		cluster.deposit(source, B);
		wire.lose("target_metadata");
		const handle = fetchFrom(target, source);
		// Several that wait are one introduction each time.
		target.kvcr.submitHint(hint(source.endpoint, [2n]), "other");
		for (let i = 0; i < 5; i += 1)
			target.kvcr.fetch([B], { requestId: "other" });
		cluster.run(450);
		const introductions = wire.of("target_metadata").length;
		expect(introductions).toBeGreaterThanOrEqual(4);
		expect(introductions).toBeLessThanOrEqual(6);
		wire.pass("target_metadata");
		cluster.run(200);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
	});

	it("is one introduction, not one per request: metadata travels only until it is acknowledged", async () => {
		const source = await cluster.peer("source");
		const target = await cluster.peer("target");
		cluster.deposit(source, A, B);
		fetchFrom(target, source, A);
		fetchFrom(target, source, B);
		const withMetadata = [
			...wire.of("target_metadata"),
			...wire.of("start_write"),
		].filter((message) => message.peer !== undefined);
		expect(withMetadata).toHaveLength(1);
	});

	it("works with metadata in a probe, too: the source learns its way home", async () => {
		const source = await cluster.peer("source");
		const target = await cluster.peer("target", { eagerConnect: false });
		cluster.deposit(source, A, B);
		// The source is known from its reply to a resolution; nobody has acknowledged our metadata.
		wire.lose("target_metadata_ack", "start_write");
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		cluster.run(900);
		wire.pass("target_metadata_ack", "start_write");
		const before = wire.of("target_metadata_ack").length;
		cluster.run(200);
		expect(wire.of("write_probe")[0]?.peer).toBeDefined();
		expect(wire.of("target_metadata_ack")).toHaveLength(before + 1);
		target.kvcr.submitHint(hint(source.endpoint, [2n]));
		cluster.run(100);
		expect(target.kvcr.query([B])).toMatchObject([{ status: "HIT" }]);
		expect(wire.of("start_write").at(-1)?.peer).toBeUndefined();
	});
});

describe("incarnations", () => {
	it("a peer that restarts under the same name and endpoint 50 times is served every time, and nothing adds up", async () => {
		const source = await cluster.peer("source");
		cluster.deposit(source, A);
		for (let life = 0; life < 50; life += 1) {
			const target = await cluster.peer("target");
			const handle = fetchFrom(target, source);
			cluster.run(300);
			expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
			expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
			cluster.crash(target);
		}
		expect(source.kvcr.stats().peers.targets).toBe(1);
		expect(source.agent.remoteCount).toBe(1);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("a source that restarts under the same name and endpoint 50 times is found again by its target within two attempts", async () => {
		const target = await cluster.peer("target");
		for (let life = 0; life < 50; life += 1) {
			const source = await cluster.peer("source");
			cluster.deposit(source, key(BigInt(life + 100)));
			const handle = fetchFrom(target, source, key(BigInt(life + 100)));
			cluster.run(300);
			expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
			forget(target, handle as never);
			if (life < 49) cluster.crash(source);
		}
		expect(target.kvcr.stats().peers.sources).toBe(1);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("an operation addressed to a dead incarnation is refused; the sender drops what it knew, resends its metadata and succeeds", async () => {
		const first = await cluster.peer("source");
		const target = await cluster.peer("target");
		cluster.deposit(first, A);
		forget(target, fetchFrom(target, first) as never);
		cluster.crash(first);
		const second = await cluster.peer("source");
		cluster.deposit(second, B);
		const before = wire.log.length;
		const handle = fetchFrom(target, second, B);
		cluster.run(200);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(wire.log.slice(before).map((seen) => seen.message.type)).toEqual([
			"start_write",
			"write_refused",
			"target_metadata",
			"target_metadata_ack",
			"start_write",
		]);
	});

	it("a source with an exclusive endpoint says that its predecessor is dead, and the memory is free at once", async () => {
		const first = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await cluster.peer("target");
		cluster.deposit(first, A);
		const handle = fetchFrom(target, first);
		expect(first.agent.writes).toHaveLength(1);
		cluster.crash(first);
		const second = await cluster.peer("source");
		cluster.run(1_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		cluster.run(100);
		expect(wire.of("write_probe_ack")).toMatchObject([
			{ deadIncarnation: first.kvcr.incarnation },
		]);
		expect(target.kvcr.stats().cache?.discarding).toBe(0);
		expect(second.kvcr.stats().transfers.writes).toBe(0);
	});

	it("without an exclusive endpoint nobody knows, and the memory stays quarantined", async () => {
		const first = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await cluster.peer("target");
		cluster.deposit(first, A);
		fetchFrom(target, first);
		cluster.crash(first);
		await cluster.peer("source", { exclusiveEndpoint: false });
		cluster.run(60_000, 500);
		expect(wire.of("write_probe_ack").length).toBeGreaterThan(0);
		expect(target.kvcr.stats().cache?.pools[0]?.quarantined).toBe(1);
		expect(target.reports?.map((one) => one.state)).toEqual(["uncertain"]);
	});

	it.each([
		{ exclusiveEndpoint: true, has: [A, B], outcome: "SUCCESS", unsafe: 0 },
		{ exclusiveEndpoint: true, has: [B], outcome: "not_at_source", unsafe: 0 },
		{
			exclusiveEndpoint: false,
			has: [A, B],
			outcome: "peer_unreachable",
			unsafe: 1,
		},
	])(
		"a replacement that is heard of ends the wait for its predecessor before the deadline: $outcome",
		async ({ exclusiveEndpoint, has, outcome, unsafe }) => {
			const first = await cluster.peer("source", {
				agentOptions: { mode: "manual" },
			});
			const target = await cluster.peer("target");
			cluster.deposit(first, A);
			const handle = fetchFrom(target, first);
			cluster.crash(first);
			const second = await cluster.peer("source", { exclusiveEndpoint });
			cluster.deposit(second, ...has);
			target.kvcr.submitHint(hint(second.endpoint, [2n]));
			cluster.run(100);
			expect(outcomesOf(target, handle)).toEqual([outcome]);
			expect(target.kvcr.stats().cache?.discarding).toBe(unsafe);
			expect(target.kvcr.query([B])).toMatchObject([{ status: "HIT" }]);
			const [entry] = entriesOf(target, handle) ?? [];
			expect(hasRightBytes(entry)).toBe(outcome === "SUCCESS");
		},
	);

	it("a refusal that comes behind the news of a replacement still allows another attempt", async () => {
		const first = await cluster.peer("source");
		const target = await cluster.peer("target");
		cluster.deposit(first, C);
		forget(target, fetchFrom(target, first, C) as never);
		cluster.crash(first);
		const second = await cluster.peer("source", { exclusiveEndpoint: false });
		cluster.deposit(second, A, B);
		wire.hold("write_refused", "write_probe_ack");
		const late = fetchFrom(target, second, A);
		wire.pass("write_refused");
		const other = fetchFrom(target, second, B);
		cluster.run(50);
		expect(outcomesOf(target, other)).toEqual(["SUCCESS"]);
		expect(wire.of("write_probe")).toHaveLength(1);
		expect(outcomesOf(target, late)).toBeUndefined();
		wire.release("write_refused");
		cluster.run(50);
		expect(outcomesOf(target, late)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(target, late)?.[0])).toBe(true);
		// The answer to the probe is about the first attempt: nobody waits for that any more.
		wire.release("write_probe_ack");
		cluster.settle();
		expect(target.kvcr.stats().cache?.discarding).toBe(0);
		expect(target.kvcr.stats().transfers.pulls).toEqual({});
	});
});

describe("route generations", () => {
	it("operations queued for an old generation are refused, never written", async () => {
		const source = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await cluster.peer("target");
		cluster.deposit(source, A, B);
		const hold = source.kvcr.lockState();
		source.polling = false;
		const handle = fetchFrom(target, source);
		expect(source.kvcr.stats().transfers.writes).toBe(1);
		// The target registers more memory: its metadata changes.
		const region = await target.agent.createRegion({
			label: "more",
			elementBytes: 8,
			elementCount: 1,
		});
		expect(region.released).toBe(false);
		const [request] = wire.of("start_write");
		if (request === undefined) throw new Error("nothing was requested");
		wire.forge(source, {
			type: "target_metadata",
			header: request.header,
			peer: {
				metadata: target.agent.localMetadata(),
				regions: wire.of("target_metadata")[0]?.peer?.regions as never,
			},
		});
		cluster.settle();
		hold.release();
		source.polling = true;
		cluster.settle();
		// Refused, asked again over the new route, and only then written.
		expect(
			source.kvcr.stats().counters[
				'kvcr_transfers_total{side="source",scope="serve",result="failed"}'
			],
		).toBe(1);
		cluster.run(200);
		source.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
		// Not even tried: the agent never saw the stale handle.
		expect(source.warnings).toEqual([]);
	});

	it("metadata that names another agent than its sender is refused, and takes nothing from either", async () => {
		const source = await cluster.peer("source");
		const honest = await cluster.peer("honest");
		const victim = await cluster.peer("victim");
		cluster.deposit(source, A, B);
		forget(honest, fetchFrom(honest, source) as never);
		forget(victim, fetchFrom(victim, source) as never);
		expect(source.agent.remoteCount).toBe(2);
		// Somebody sends the victim's metadata under the name of an honest peer, and under a name of its own.
		const peer = {
			metadata: victim.agent.localMetadata(),
			regions: wire
				.of("target_metadata")
				.find((one) => one.header.targetAgent === victim.agent.name)?.peer
				?.regions as never,
		};
		for (const targetAgent of [honest.agent.name, "agent-nobody"])
			wire.forge(source, {
				type: "target_metadata",
				header: {
					targetAgent,
					senderIncarnation: "ab".repeat(16) as Incarnation,
					senderControlEndpoint: honest.endpoint,
				},
				peer,
			});
		cluster.settle();
		for (const target of [honest, victim]) {
			const handle = fetchFrom(target, source, B);
			cluster.run(300);
			expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
			forget(target, handle as never);
		}
		expect(source.agent.remoteCount).toBe(2);
		expect(source.kvcr.stats().peers.targets).toBe(2);
	});

	it("a known name without metadata is only good for the incarnation that introduced it", async () => {
		const source = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await cluster.peer("target");
		cluster.deposit(source, A);
		fetchFrom(target, source);
		const [request] = wire.of("start_write");
		if (request === undefined) throw new Error("nothing was requested");
		const bare = { ...request };
		delete bare.peer;
		expect(source.agent.writes).toHaveLength(1);
		for (const [at, senderIncarnation] of [
			"ab".repeat(16) as Incarnation,
			request.header.senderIncarnation,
		].entries()) {
			wire.forge(source, {
				...bare,
				header: { ...request.header, senderIncarnation },
				opHandle: (request.opHandle - 1n) as typeof request.opHandle,
			});
			cluster.settle();
			expect(source.agent.writes).toHaveLength(1 + at);
		}
		expect(
			source.kvcr.stats().counters[
				'kvcr_writes_refused_total{side="source",reason="no_route"}'
			],
		).toBe(1);
	});

	it("a route whose handle went stale is loaded again, not refused for ever", async () => {
		const source = await cluster.peer("source");
		const target = await cluster.peer("target");
		cluster.deposit(source, A, B);
		forget(target, fetchFrom(target, source) as never);
		// Whatever made it so: the agent does not know the handle any more.
		const remote = source.agent.addRemote(target.agent.localMetadata(), []);
		source.agent.removeRemote(remote);
		const handle = fetchFrom(target, source, B);
		cluster.run(300);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
	});

	it("a write that fails with its connection is asked for again, over a new one, within the same fetch", async () => {
		const source = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await cluster.peer("target");
		cluster.deposit(source, A);
		const handle = fetchFrom(target, source);
		const [write] = source.agent.writes;
		source.agent.mode = "auto";
		write?.fail();
		// As agents do that know their connection to be gone.
		source.agent.removeRemote(
			source.agent.addRemote(target.agent.localMetadata(), []),
		);
		cluster.run(300);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
	});

	it("a target that is idle for long is unloaded on its own deadline, and served again when it comes back", async () => {
		const source = await cluster.peer("source", {
			limits: { idlePeerMs: 5_000 },
		});
		const target = await cluster.peer("target");
		cluster.deposit(source, A, B);
		forget(target, fetchFrom(target, source) as never);
		cluster.run(4_900, 100);
		expect(source.agent.remoteCount).toBe(1);
		cluster.run(200, 100);
		expect(source.agent.remoteCount).toBe(0);
		const handle = fetchFrom(target, source, B);
		cluster.run(300);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
	});

	it("a target that is idle is kept while a write to it is not over, and unloaded after that", async () => {
		const source = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
			limits: { idlePeerMs: 2_000 },
		});
		const target = await cluster.peer("target");
		cluster.deposit(source, A);
		fetchFrom(target, source);
		// Nobody asks any more, and nobody can stop the write.
		wire.lose("write_probe");
		cluster.run(8_000, 100);
		expect(source.agent.remoteCount).toBe(1);
		expect(source.kvcr.stats().peers.targets).toBe(1);
		source.agent.writes[0]?.fail();
		cluster.run(4_100, 100);
		expect(source.agent.remoteCount).toBe(0);
		expect(source.kvcr.stats().peers.targets).toBe(0);
	});

	it("at most maxPeers targets are loaded, the longest idle goes first", async () => {
		const source = await cluster.peer("source", { limits: { maxPeers: 2 } });
		cluster.deposit(source, A);
		for (const name of ["a", "b", "c"]) {
			const target = await cluster.peer(name);
			const handle = fetchFrom(target, source);
			cluster.run(100);
			expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		}
		expect(source.kvcr.stats().peers.targets).toBe(2);
		expect(source.agent.remoteCount).toBe(2);
	});

	it("at most maxWritesPerPeer writes of one target run at once; more are refused and asked again", async () => {
		const source = await cluster.peer("source", {
			agentOptions: { mode: "manual" },
			limits: { maxWritesPerPeer: 1 },
		});
		const target = await cluster.peer("target");
		cluster.deposit(source, A, B);
		const first = fetchFrom(target, source, A);
		const second = fetchFrom(target, source, B);
		cluster.run(200);
		expect(source.agent.writes).toHaveLength(1);
		expect(outcomesOf(target, second)).toEqual(["transfer_failed"]);
		source.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, first)).toEqual(["SUCCESS"]);
	});
});
