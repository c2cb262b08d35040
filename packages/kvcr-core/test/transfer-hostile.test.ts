import { randomInt } from "node:crypto";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Incarnation, keyText, type OpHandle } from "../src/index.js";
import {
	type ControlMessage,
	decodeControlMessage,
	encodeControlMessage,
	encodeWriteDone,
	type PeerMetadata,
} from "../src/protocol/index.js";
import { EndedWrites, WriteName } from "../src/transfer/ended-writes.js";
import { FenceTable } from "../src/transfer/fences.js";
import {
	Cluster,
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
let wire: Wire;
let source: Peer;
let target: Peer;

beforeEach(async () => {
	cluster = new Cluster();
	wire = new Wire(cluster);
	source = await cluster.peer("source");
	target = await cluster.peer("target", { frameworkElements: 4 });
	cluster.deposit(source, A, B);
});
afterEach(() => cluster.close());

/** What one sends who has read the protocol and means no good: real names, handles and incarnations mixed with invented ones. */
function arbitraryMessage(peer: PeerMetadata): fc.Arbitrary<ControlMessage> {
	const incarnation = fc.constantFrom(
		source.kvcr.incarnation,
		target.kvcr.incarnation,
		"ab".repeat(16) as Incarnation,
	);
	const agent = fc.constantFrom(
		source.agent.name,
		target.agent.name,
		"agent-mallory",
	);
	const endpoint = fc.constantFrom(
		source.endpoint,
		target.endpoint,
		"memory://mallory",
	);
	const opHandle = fc
		.oneof(
			fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
			fc.constantFrom(...wire.of("start_write").map((one) => one.opHandle)),
		)
		.map((value) => value as OpHandle);
	const header = fc.record({
		targetAgent: agent,
		senderIncarnation: incarnation,
		senderControlEndpoint: endpoint,
		sourceControlEndpoint: endpoint,
	});
	const maybePeer = fc.option(fc.constant(peer), { nil: undefined });
	const elements = (count: number, owner: string) =>
		fc.array(
			fc.array(
				fc.record({
					endPointName: fc.constant(owner),
					elementIndex: fc.oneof(fc.nat(3), fc.nat(2 ** 31 - 1)),
					label: fc.constantFrom("kv", "", "kv:x", "other"),
					framework: fc.boolean(),
				}),
				{ minLength: 1, maxLength: 3 },
			),
			{ minLength: count, maxLength: count },
		);
	const startWrite = fc
		.tuple(
			header,
			opHandle,
			fc.uniqueArray(fc.constantFrom(1n, 2n, 3n), { minLength: 1 }),
			incarnation,
			maybePeer,
			fc.boolean(),
			fc.constantFrom("copy" as const, "move" as const),
		)
		.chain(([head, handle, hashes, sourceIncarnation, from, flag, mode]) =>
			elements(hashes.length, head.targetAgent).map((dstDescriptors) => ({
				type: "start_write" as const,
				header: head,
				opHandle: handle,
				remainingTimeoutMs: 50,
				sourceIncarnation,
				keys: hashes.map((hash) => key(hash)),
				dstDescriptors,
				allowLayoutSubset: flag,
				allowFramework: flag,
				mode,
				...(from !== undefined && { peer: from }),
			})),
		);
	const others = fc
		.tuple(header, opHandle, incarnation, maybePeer)
		.chain(([head, handle, meant, from]) => {
			const messages: ControlMessage[] = [
				{ type: "target_metadata", header: head, peer },
				{ type: "target_metadata_ack", header: head, opHandle: handle },
				{ type: "write_refused", header: head, opHandle: handle },
				{
					type: "write_probe",
					header: head,
					opHandle: handle,
					sourceIncarnation: meant,
					...(from !== undefined && { peer: from }),
				},
				{
					type: "write_probe_ack",
					header: head,
					opHandle: handle,
					terminal: false,
				},
				{
					type: "resolve_hashes",
					header: head,
					resolutionId: 5n,
					hashes: [1n, 9n] as never,
					remainingTimeoutMs: 50,
				},
				{
					type: "hashes_resolved",
					header: head,
					resolutionId: 5n,
					results: [],
				},
			];
			return fc.constantFrom(...messages);
		});
	return fc.oneof(startWrite, others) as fc.Arbitrary<ControlMessage>;
}

/** Every byte a peer has registered for others to write: pool and framework. */
function memoryOf(peer: Peer): Buffer {
	const regions = peer.parts?.cache?.stats().pools ?? [];
	expect(regions).toHaveLength(1);
	return Buffer.concat(
		Array.from({ length: peer.framework?.elementCount ?? 0 }, (_, i) =>
			Buffer.from(peer.framework?.element(i) ?? []),
		),
	);
}

function warmUp(): PeerMetadata {
	target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
	const handle = target.kvcr.fetch([A], { requestId: "r" });
	cluster.settle();
	releaseAll(target, handle);
	target.kvcr.discardHint("r");
	const peer = wire.of("target_metadata")[0]?.peer;
	if (peer === undefined) throw new Error("no metadata was sent");
	return peer;
}

describe("hostile control messages", () => {
	it("10,000 valid-looking ones: nothing is written that nobody registered, nothing leaks, nobody stops working", async () => {
		// Memory of the same agents that was never offered to peers.
		const secrets = await Promise.all(
			[source, target].map(({ agent }) =>
				agent.createRegion({
					label: "kv",
					elementBytes: SLOT,
					elementCount: 16,
				}),
			),
		);
		for (const region of secrets)
			for (let i = 0; i < 16; i += 1) region.element(i).fill(0x5a);
		const peer = warmUp();
		const arbitrary = arbitraryMessage(peer);
		const messages = fc.sample(arbitrary, {
			numRuns: 10_000,
			seed: 20_261_129,
		});
		for (const [i, message] of messages.entries()) {
			const to = i % 3 === 0 ? target : source;
			wire.send(to.name, encodeControlMessage(message));
			if (i % 200 === 199) cluster.run(100, 50);
		}
		cluster.run(60_000, 500);
		for (const one of [source, target])
			expect(one.parts?.health.failure).toBeUndefined();
		for (const one of [source, target]) {
			const { counters } = one.kvcr.stats();
			expect(
				counters['kvcr_control_dropped_total{reason="handler_error"}'],
			).toBeUndefined();
		}
		for (const region of secrets)
			for (let i = 0; i < 16; i += 1)
				expect(region.element(i).every((byte) => byte === 0x5a)).toBe(true);
		// A source is only ever read: what it still has is what it had.
		for (const one of [A, B]) {
			const cache = source.parts?.cache;
			const residency = cache?.get(keyText(one));
			if (cache !== undefined && residency !== undefined)
				expect(Buffer.from(cache.bytesOf(residency)[0] ?? [])).toEqual(
					contentOf(one),
				);
		}
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
		expect(source.kvcr.stats().peers.targets).toBeLessThanOrEqual(3);
		// And then honest work goes on. A fenced handle of the past may cost one more attempt.
		target.kvcr.submitHint(hint(source.endpoint, [1n, 2n]), "after");
		for (const one of [A, B]) {
			const handle = target.kvcr.fetch([one], { requestId: "after" });
			cluster.run(400);
			// A block that a forged move took away is gone: absent, never wrong.
			expect([
				["SUCCESS"],
				["not_at_source"],
				["transfer_failed"],
			]).toContainEqual(outcomesOf(target, handle));
		}
	});

	it("random bytes, and messages with bytes changed, end no process and change nothing", () => {
		warmUp();
		const before = leftovers(source);
		const framework = memoryOf(target);
		const samples = wire.log.map((seen) => seen.bytes);
		const seed = randomInt(0x7fff_ffff);
		fc.assert(
			fc.property(
				fc.oneof(
					fc.uint8Array({ maxLength: 300 }),
					fc
						.tuple(
							fc.constantFrom(...samples),
							fc.array(fc.tuple(fc.nat(), fc.nat(255)), {
								minLength: 1,
								maxLength: 4,
							}),
						)
						.map(([bytes, changes]) => {
							const copy = bytes.slice();
							for (const [at, value] of changes) copy[at % copy.length] = value;
							return copy;
						}),
				),
				(bytes) => {
					if (asksInName(bytes, target.kvcr.incarnation)) return;
					wire.send("source", bytes);
					wire.send("target", bytes);
					cluster.clock.advance(0);
				},
			),
			{ numRuns: 3_000, seed },
		);
		cluster.run(5_000, 100);
		const replay = `seed ${seed}`;
		expect(source.parts?.health.failure, replay).toBeUndefined();
		expect(leftovers(source), replay).toEqual(before);
		expect(memoryOf(target).equals(framework), replay).toBe(true);
	});

	it("leave memory flat, however many agents and incarnations they invent", () => {
		const peer = warmUp();
		const limits = { messages: 4_000 };
		const sizes = (): object => ({
			targets: source.kvcr.stats().peers.targets,
			sources: source.kvcr.stats().peers.sources,
			series: Object.keys(source.kvcr.stats().counters).length,
			timers: cluster.clock.pending > 40,
		});
		const round = (offset: number): void => {
			for (let i = 0; i < limits.messages; i += 1) {
				const id = (offset + i).toString(16).padStart(32, "0") as Incarnation;
				const header = {
					targetAgent: `agent-${offset + i}`,
					senderIncarnation: id,
					senderControlEndpoint: `memory://nobody-${offset + i}`,
				};
				wire.forge(source, { type: "target_metadata", header, peer });
				wire.forge(source, {
					type: "write_probe",
					header,
					opHandle: BigInt(i + 1) as OpHandle,
				});
				wire.forge(source, {
					type: "target_metadata_ack",
					header,
				});
				if (i % 100 === 99) cluster.settle();
			}
			cluster.run(10_000, 1_000);
		};
		round(0);
		const first = sizes();
		round(1_000_000);
		expect(sizes()).toEqual(first);
		expect(first).toMatchObject({ timers: false });
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("that name elements nobody registered get a failure, and no byte is written", () => {
		const peer = warmUp();
		const header = {
			targetAgent: target.agent.name,
			senderIncarnation: target.kvcr.incarnation,
			senderControlEndpoint: target.endpoint,
		};
		const element = {
			endPointName: target.agent.name,
			elementIndex: 0,
			label: "kv",
			framework: false,
		};
		for (const [i, bad] of [
			{ ...element, elementIndex: 16 },
			{ ...element, label: "other" },
			{ ...element, label: "kv:part", framework: true },
		].entries())
			wire.forge(source, {
				type: "start_write",
				header,
				opHandle: BigInt(9_000_000_000 + i) as OpHandle,
				remainingTimeoutMs: 100,
				keys: [A],
				dstDescriptors: [[bad]],
				allowLayoutSubset: true,
				allowFramework: true,
				mode: "move",
				peer,
			});
		cluster.settle();
		expect(source.kvcr.stats().counters).toMatchObject({
			'kvcr_writes_refused_total{side="source",reason="bad_element"}': 3,
		});
		expect(target.kvcr.stats().counters).toMatchObject({
			'kvcr_notifications_dropped_total{reason="unknown_operation"}': 3,
		});
		expect(source.kvcr.query([A])).toMatchObject([{ status: "HIT" }]);
	});

	it("write_done notifications of every shape from every agent change nothing for a pull they do not belong to", () => {
		source.agent.mode = "manual";
		target.kvcr.submitHint(hint(source.endpoint, [2n]), "r");
		const handle = target.kvcr.fetch([B], { requestId: "r" });
		cluster.settle();
		const mallory = cluster.fabric.agent("agent-mallory");
		const remote = mallory.addRemote(target.agent.localMetadata(), []);
		const real = wire.of("start_write")[0]?.opHandle;
		if (real === undefined) throw new Error("nothing was requested");
		fc.assert(
			fc.property(
				fc.oneof(
					fc.uint8Array({ minLength: 1, maxLength: 64 }),
					fc
						.record({
							opHandle: fc.constantFrom(
								real,
								(real + 1n) as OpHandle,
								0n as OpHandle,
							),
							success: fc.boolean(),
							completedIndices: fc.uniqueArray(fc.nat(3), { maxLength: 3 }),
							terminal: fc.boolean(),
						})
						.map((fields) => encodeWriteDone(fields)),
				),
				(payload) => {
					mallory.notify(remote, payload);
					cluster.clock.advance(0);
				},
			),
			{ numRuns: 1_000 },
		);
		cluster.settle();
		expect(outcomesOf(target, handle)).toBeUndefined();
		source.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		releaseAll(target, handle);
	});
});

describe("control messages that are lost, doubled, delayed and reordered", () => {
	it("at random: every operation ends once, with right bytes or a reason, and nothing stays", async () => {
		await fc.assert(
			fc.asyncProperty(
				fc.array(
					fc.record({
						copies: fc.constantFrom(0, 1, 1, 1, 2),
						delayMs: fc.constantFrom(0, 0, 0, 5, 60, 1_500),
					}),
					{ minLength: 20, maxLength: 60 },
				),
				async (fates) => {
					const own = new Cluster();
					const from = await own.peer("from");
					const to = await own.peer("to");
					const keys = [1n, 2n, 3n, 4n].map((hash) => key(hash));
					own.deposit(from, ...keys);
					let next = 0;
					own.network.policy = () => fates[next++ % fates.length] ?? {};
					to.kvcr.submitHint(hint(from.endpoint, [1n, 2n, 3n, 4n]), "r");
					to.kvcr.submitHint(hint(from.endpoint, [4n, 3n]));
					const handles = keys.map((one) =>
						to.kvcr.fetch([one], { requestId: "r" }),
					);
					own.run(8_000, 20);
					own.network.policy = undefined;
					own.run(70_000, 500);
					for (const handle of handles) {
						const ends = to.results.filter((one) => one.handle === handle);
						expect(ends).toHaveLength(1);
						const [piece] = ends[0]?.entries[0]?.pieces ?? [];
						if (piece !== undefined)
							expect(
								Buffer.from(piece.region.element(piece.element)).equals(
									contentOf(ends[0]?.entries[0]?.key ?? A),
								),
							).toBe(true);
						releaseAll(to, handle);
					}
					to.kvcr.discardHint("r");
					expect(leftovers(from)).toEqual(NOTHING_LEFT);
					expect(leftovers(to)).toEqual(NOTHING_LEFT);
					await own.close();
				},
			),
			{ numRuns: 60 },
		);
	});
});

describe("what a source remembers of operations that are over", () => {
	const incarnation = "cd".repeat(16) as Incarnation;
	const name = (handle: bigint) =>
		new WriteName("agent", incarnation, handle as OpHandle);

	it("is bounded, and refuses every copy for ever: exactly while it is recent, by a fence when it is old", () => {
		const fences = new FenceTable(8);
		const ended = new EndedWrites(fences, 100);
		for (let i = 1n; i <= 1_000n; i += 1n) {
			ended.add(name(i));
			ended.add(name(-i));
		}
		for (let i = 1n; i <= 1_000n; i += 1n)
			for (const handle of [i, -i]) {
				const one = name(handle);
				expect(
					ended.has(one) ||
						fences.isFenced(one.agentName, one.incarnation, one.opHandle),
				).toBe(true);
			}
		expect(fences.isFenced("agent", incarnation, 1_001n as OpHandle)).toBe(
			false,
		);
		expect(fences.isFenced("agent", incarnation, -1_001n as OpHandle)).toBe(
			false,
		);
	});

	it("is kept per agent and incarnation, for a bounded number of them", () => {
		const fences = new FenceTable(3);
		for (const agent of ["a", "b", "c", "d"])
			fences.fence(agent, incarnation, 5n as OpHandle);
		expect(fences.size).toBe(3);
		expect(fences.isFenced("a", incarnation, 5n as OpHandle)).toBe(false);
		expect(fences.isFenced("d", incarnation, 5n as OpHandle)).toBe(true);
		expect(
			fences.isFenced("d", "ef".repeat(16) as Incarnation, 5n as OpHandle),
		).toBe(false);
		fences.forget("d", incarnation);
		expect(fences.isFenced("d", incarnation, 5n as OpHandle)).toBe(false);
	});
});

/**
 * Whether changed bytes still make a request of this instance, about other memory perhaps: a source serves it as one, since
 * who takes part in the control plane is trusted to speak for itself.
 */
function asksInName(bytes: Uint8Array, incarnation: Incarnation): boolean {
	try {
		const message = decodeControlMessage(bytes);
		return (
			(message?.type === "start_write" ||
				message?.type === "target_metadata") &&
			message.header.senderIncarnation === incarnation
		);
	} catch {
		return false;
	}
}

function contentOf(one: Uint8Array): Buffer {
	const bytes = Buffer.alloc(SLOT);
	for (let i = 0; i < SLOT; i += 1)
		bytes[i] = ((one[i % one.length] ?? 0) * 31 + i + 7) & 0xff;
	return bytes;
}
