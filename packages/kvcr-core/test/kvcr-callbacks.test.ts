/** Code of the caller that runs inside calls: callbacks that close or look, lists that are used again, memory given back. */
import { channel as diagnosticsChannel } from "node:diagnostics_channel";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
	HINT_OUTCOME_CHANNEL,
	type KVCachePolicy,
	Kvcr,
	type KvcrOptions,
	LruPolicy,
} from "../src/index.js";
import { settle } from "../src/testing/index.js";
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
	type PeerOptions,
	releaseAll,
	SLOT,
} from "./support/cluster.js";
import { ScriptedPins } from "./support/pins.js";

const A = key(1n);
const B = key(2n);

let cluster: Cluster;
let source: Peer;
beforeEach(async () => {
	cluster = new Cluster();
	source = await cluster.peer("source", { agentOptions: { mode: "manual" } });
	cluster.deposit(source, A, B);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

const target = (options: PeerOptions = {}) => cluster.peer("target", options);

function fetchFrom(peer: Peer, one = A, request = "r", options: object = {}) {
	peer.kvcr.submitHint(
		hint(source.endpoint, [peer.adapter.decode(one)]),
		request,
	);
	const handle = peer.kvcr.fetch([one], { requestId: request, ...options });
	cluster.settle();
	return handle;
}

function fetchFromHash(peer: Peer, hash: bigint): void {
	peer.kvcr.submitHint(hint(source.endpoint, [hash], { scope: "independent" }));
	peer.kvcr.submitHint(hint(source.endpoint, [hash]), "h");
	peer.kvcr.query([A], { requestId: "h" });
	cluster.settle();
}

const bytesOf = (one: Uint8Array) => [{ label: "kv", bytes: content(one) }];

function completeWrites(): void {
	for (const write of source.agent.writes) write.complete();
	cluster.settle();
}

describe("close, called", () => {
	async function ends(peer: Peer, closing: () => Promise<void> | undefined) {
		await cluster.clock.advanceAsync(20_000);
		expect(closing()).toBeDefined();
		await closing();
		expect(peer.kvcr.closed).toBe(true);
		peer.results.push(...peer.kvcr.pollCompleted());
		expect(leftovers(peer)).toMatchObject({ operations: { open: 0 } });
	}

	it("from a transfer report while other work is open", async () => {
		let closing: Promise<void> | undefined;
		const peer = await target({
			onTransferReport: () => {
				closing ??= peer.kvcr.close();
			},
		});
		const first = fetchFrom(peer, A, "r");
		source.agent.writes[0]?.stall();
		cluster.run(4_500);
		const second = fetchFrom(peer, B, "s");
		cluster.run(600);
		expect(closing).toBeDefined();
		await ends(peer, () => closing);
		expect([first, second].every((one) => entriesOf(peer, one))).toBe(true);
	});

	it("from a subscriber of hint outcomes", async () => {
		let closing: Promise<void> | undefined;
		const peer = await target();
		const close = () => {
			closing ??= peer.kvcr.close();
		};
		diagnosticsChannel(HINT_OUTCOME_CHANNEL).subscribe(close);
		try {
			fetchFrom(peer, B, "s");
			peer.kvcr.submitHint(
				hint(source.endpoint, [1n], { scope: "independent" }),
			);
			cluster.settle();
			source.agent.writes[1]?.complete();
			cluster.settle();
			await ends(peer, () => closing);
		} finally {
			diagnosticsChannel(HINT_OUTCOME_CHANNEL).unsubscribe(close);
		}
	});

	it("from a policy in the middle of a decision", async () => {
		let closing: Promise<void> | undefined;
		let decide = () => {};
		const policy = new LruPolicy();
		policy.decideIngest = () => {
			decide();
			return "keep";
		};
		const peer: Peer = await target({ policy });
		fetchFrom(peer, B, "s");
		decide = () => {
			closing ??= peer.kvcr.close();
		};
		peer.kvcr.submitHint(hint(source.endpoint, [1n], { scope: "independent" }));
		cluster.settle();
		await ends(peer, () => closing);
	});

	it("with a channel whose own close throws, or gives nothing to wait for: the agent is closed all the same", async () => {
		const close = async (broken: () => unknown) => {
			const agent = cluster.fabric.agent(`agent-${Math.random()}`);
			const channel = cluster.network.channel(`broken-${Math.random()}`);
			await channel.close();
			const options: KvcrOptions = {
				agent,
				channel: {
					endpoint: undefined,
					start: async () => {},
					send: () => false,
					stats: () => ({ sent: 0, received: 0, refused: {}, dropped: {} }),
					close: broken as () => Promise<void>,
				},
				pools: [{ name: "kv", slotBytes: SLOT, slotCount: 1 }],
				clock: cluster.clock,
			};
			const kvcr = await Kvcr.create(options);
			const closing = kvcr.close().then(
				() => "closed",
				(error: Error) => error.message,
			);
			await cluster.clock.advanceAsync(10_000);
			return [await closing, agent.regionCount];
		};
		const broken = () => {
			throw new Error("broken");
		};
		expect(await close(broken)).toEqual(["broken", 0]);
		expect(await close(() => undefined)).toEqual(["closed", 0]);
		expect(await close(() => Promise.reject(new Error("late")))).toEqual([
			"late",
			0,
		]);
	});
});

describe("a policy that looks at the instance while it decides", () => {
	it("disturbs nothing", async () => {
		const policy = new LruPolicy();
		const errors: unknown[] = [];
		const peer: Peer = await target({ policy, slots: 2 });
		const look = () => {
			try {
				peer.kvcr.query([A]);
				peer.kvcr.pollCompleted();
				peer.kvcr.stats();
			} catch (error) {
				errors.push(error);
			}
		};
		policy.decideIngest = () => {
			look();
			return "keep";
		};
		policy.decideEviction = () => {
			look();
			return "evict";
		};
		policy.decideRecovery = () => {
			look();
			return "wait";
		};
		const held = peer.kvcr.deposit(
			[key(8n), key(9n)].map((one) => ({
				key: one,
				pieces: [{ label: "kv", bytes: content(one) }],
			})),
			{ noEvict: true },
		);
		cluster.settle();
		const first = fetchFrom(peer, A, "r");
		const second = fetchFrom(peer, B, "s");
		// The pull of the first fails within its admission, which leaves a task; then the policy is asked about the second.
		const channel = peer.parts?.channel;
		if (channel !== undefined) channel.send = () => false;
		releaseAll(peer, held);
		cluster.settle();
		expect([outcomesOf(peer, first), outcomesOf(peer, second)]).toEqual([
			["peer_unreachable"],
			["peer_unreachable"],
		]);
		expect(errors).toEqual([]);
		for (const request of ["r", "s"]) peer.kvcr.discardHint(request);
		expect(leftovers(peer)).toEqual(NOTHING_LEFT);
	});
});

describe("what a caller passed belongs to it again after the call", () => {
	it("the bytes of keys: neither it nor anybody else ever gets the bytes of another block", async () => {
		const peer = await target({ frameworkElements: 4 });
		const region = peer.framework as never;
		peer.kvcr.submitHint(hint(source.endpoint, [1n, 2n]), "r");
		const scratch = new Uint8Array(A);
		const fetched = peer.kvcr.fetch([scratch], { requestId: "r" });
		const delivered = peer.kvcr.deliver(
			[{ key: scratch, pieces: [{ label: "kv", region, element: 1 }] }],
			{ requestId: "r" },
		);
		const own = key(9n);
		const deposited = peer.kvcr.deposit([
			{ key: scratch.map((_, i) => own[i] ?? 0), pieces: bytesOf(own) },
		]);
		scratch.set(B);
		cluster.settle();
		completeWrites();
		const [entry] = entriesOf(peer, fetched) ?? [];
		expect(Buffer.from(entry?.key ?? [])).toEqual(Buffer.from(A));
		expect(hasRightBytes(entry)).toBe(true);
		expect(outcomesOf(peer, delivered)).toEqual(["SUCCESS"]);
		expect(Buffer.from(peer.framework?.element(1) ?? [])).toEqual(
			Buffer.from(content(A)),
		);
		expect(peer.kvcr.query([A, B, own]).map(({ status }) => status)).toEqual([
			"HIT",
			"MISS",
			"HIT",
		]);
		releaseAll(peer, fetched);
		expect(outcomesOf(peer, deposited)).toEqual(["SUCCESS"]);
	});

	it("the memory of a message: what is pinned is what was asked for", async () => {
		const F = key(5n);
		const pins = new ScriptedPins();
		const owner = await cluster.peer("owner", { frameworkElements: 2, pins });
		pins.keep(owner.framework as never, F);
		const peer = await target();
		peer.kvcr.submitHint(hint(owner.endpoint, [5n]), "f");
		// A channel that uses one buffer for all messages it hands out.
		const inbox = owner.parts?.inbox;
		const receive = inbox?.receive.bind(inbox);
		if (inbox !== undefined)
			inbox.receive = (bytes) => {
				const reused = bytes.slice();
				receive?.(reused);
				reused.fill(0x41);
			};
		const handle = peer.kvcr.fetch([F], { requestId: "f" });
		cluster.run(200);
		expect(outcomesOf(peer, handle)).toEqual(["SUCCESS"]);
		releaseAll(peer, handle);
	});

	it("pieces of a delivery", async () => {
		const peer = await target({ frameworkElements: 4 });
		const region = peer.framework as never;
		const fetched = fetchFrom(peer);
		const pieces = [{ label: "kv", region, element: 1 }];
		const delivered = peer.kvcr.deliver([{ key: A, pieces }]);
		pieces[0] = { label: "kv", region, element: 99 };
		cluster.settle();
		completeWrites();
		expect(outcomesOf(peer, delivered)).toEqual(["SUCCESS"]);
		expect(Buffer.from(peer.framework?.element(1) ?? [])).toEqual(
			Buffer.from(content(A)),
		);
		expect(outcomesOf(peer, fetched)).toEqual(["SUCCESS"]);
		releaseAll(peer, fetched);
	});

	it("the layout of a fetch that waits for capacity", async () => {
		const peer = await target({ slots: 1 });
		const held = peer.kvcr.deposit(
			[{ key: B, pieces: [{ label: "kv", bytes: content(B) }] }],
			{ noEvict: true },
		);
		cluster.settle();
		const expectedLayout = ["kv"];
		const handle = fetchFrom(peer, A, "r", { expectedLayout });
		expectedLayout[0] = "elsewhere";
		releaseAll(peer, held);
		cluster.settle();
		completeWrites();
		expect(outcomesOf(peer, handle)).toEqual(["SUCCESS"]);
		releaseAll(peer, handle);
	});
});

describe("async functions where nothing is waited for", () => {
	it("end neither the process nor what they were called from when they reject", async () => {
		const rejections: unknown[] = [];
		const note = (reason: unknown) => void rejections.push(reason);
		process.on("unhandledRejection", note);
		try {
			const bad = async () => {
				throw new Error("async");
			};
			const policy: KVCachePolicy = new LruPolicy();
			const stats = { increaseCounter: bad, observeHistogram: bad };
			const logger = { debug: bad, info: bad, warn: bad, error: bad };
			const peer = await target({
				policy,
				stats,
				logger,
				inventorySink: bad,
				capacityListener: bad,
				capacityLowWatermarkPercent: 100,
				onTransferReport: bad,
				slots: 1,
			});
			policy.onIngest = bad as never;
			policy.onRemove = bad as never;
			const stop = peer.kvcr.onWake(bad as never);
			const deposit = (one: typeof A) => {
				const handle = peer.kvcr.deposit([{ key: one, pieces: bytesOf(one) }]);
				cluster.settle();
				return outcomesOf(peer, handle);
			};
			expect(deposit(key(7n))).toEqual(["SUCCESS"]);
			expect(deposit(key(8n))).toEqual(["SUCCESS"]);
			for (const method of [
				"decideIngest",
				"decideEviction",
				"evictionScore",
				"decideRecovery",
			] as const) {
				policy[method] = bad as never;
				deposit(key(9n));
			}
			const { decode } = peer.adapter;
			peer.adapter.decode = bad as never;
			fetchFromHash(peer, 1n);
			peer.adapter.decode = decode;
			await settle();
			await settle();
			stop();
			expect(rejections).toEqual([]);
		} finally {
			process.removeListener("unhandledRejection", note);
		}
	});
});

describe("abort, called by a policy in the middle of a decision", () => {
	it("takes effect after it", async () => {
		const large = 4 << 20;
		const policy = new LruPolicy();
		let first: bigint | undefined;
		let aborted: boolean | undefined;
		policy.decideIngest = () => {
			if (first !== undefined) aborted ??= peer.kvcr.abort(first as never);
			return "keep";
		};
		const peer: Peer = await cluster.peer("large", {
			policy,
			pools: [{ name: "kv", slotBytes: large, slotCount: 4 }],
		});
		const block = (one: typeof A) => ({
			key: one,
			pieces: [{ label: "kv", bytes: new Uint8Array(large) }],
		});
		// Copied in slices, so it is still open when the policy is asked about the second.
		first = peer.kvcr.deposit([block(A)]);
		const second = peer.kvcr.deposit([block(B)]);
		cluster.run(100);
		expect(aborted).toBe(true);
		expect([
			outcomesOf(peer, first as never),
			outcomesOf(peer, second),
		]).toEqual([["aborted"], ["SUCCESS"]]);
		expect(leftovers(peer)).toEqual(NOTHING_LEFT);
		expect(peer.kvcr.query([A])).toEqual([{ status: "MISS" }]);
	});
});

describe("an agent or a channel that breaks its promises", () => {
	it("cannot cancel: the write goes on, and so does the instance", async () => {
		const peer = await target();
		source.agent.cancel = () => {
			throw new Error("no cancel");
		};
		const handle = fetchFrom(peer);
		cluster.run(1_500);
		expect(outcomesOf(peer, handle)).toEqual(["timeout"]);
		source.agent.writes[0]?.complete();
		cluster.settle();
		const again = fetchFrom(peer, B, "s");
		cluster.run(200);
		completeWrites();
		expect(outcomesOf(peer, again)).toEqual(["SUCCESS"]);
		releaseAll(peer, again);
	});

	it("cannot connect ahead of need: the first write does it", async () => {
		source.agent.connect = () => {
			throw new Error("no connect");
		};
		const peer = await target();
		const handle = fetchFrom(peer);
		completeWrites();
		expect(outcomesOf(peer, handle)).toEqual(["SUCCESS"]);
		releaseAll(peer, handle);
	});

	it("never closes: the agent is closed all the same, in bounded time", async () => {
		const peer = await target();
		const channel = peer.parts?.channel;
		if (channel !== undefined) channel.close = () => new Promise(() => {});
		const closing = peer.kvcr.close().catch((error: Error) => error.message);
		await cluster.clock.advanceAsync(20_000);
		expect(await closing).toMatch(/did not close within/);
		expect(peer.agent.regionCount).toBe(0);
		cluster.peers.splice(cluster.peers.indexOf(peer), 1);
	});
});

describe("framework memory released too early", () => {
	it("fails the delivery into it, and nobody else who waits for the block", async () => {
		const peer = await target({ frameworkElements: 4 });
		const region = peer.framework as never;
		const before = fetchFrom(peer);
		const delivery = peer.kvcr.deliver([
			{ key: A, pieces: [{ label: "kv", region, element: 0 }] },
		]);
		const after = peer.kvcr.fetch([A]);
		cluster.settle();
		peer.framework?.release();
		completeWrites();
		expect(
			[before, delivery, after].map((one) => outcomesOf(peer, one)),
		).toEqual([["SUCCESS"], ["transfer_failed"], ["SUCCESS"]]);
		releaseAll(peer, before);
		releaseAll(peer, after);
		peer.kvcr.discardHint("r");
		expect(leftovers(peer)).toEqual(NOTHING_LEFT);
	});
});

describe("answers of the framework about pins that make no sense", () => {
	const F = key(5n);
	it.each<[string, (handle: string) => unknown]>([
		["null for nothing", () => null],
		["a grant without blocks", (handle) => ({ handle })],
		["a grant without handle", () => ({ blocks: new Map() })],
		[
			"keys that are no bytes",
			(handle) => ({ handle, blocks: new Map([["a", []]]) }),
		],
		["null for pieces", (handle) => ({ handle, blocks: new Map([[F, null]]) })],
	])(
		"%s: the pin goes back, the request fails, and the next answer counts",
		async (_, grant) => {
			const pins = new ScriptedPins();
			let nonsense = true;
			const poll = pins.pollResults.bind(pins);
			pins.pollResults = () => {
				const answers = [...poll()];
				if (!nonsense) return answers;
				return answers.map(([id, real]) => [
					id,
					grant(real?.handle ?? ""),
				]) as never;
			};
			const owner = await cluster.peer("owner", { frameworkElements: 2, pins });
			pins.keep(owner.framework as never, F);
			owner.framework?.element(0).set(content(F));
			const peer = await target();
			const ask = (request: string) => {
				peer.kvcr.submitHint(hint(owner.endpoint, [5n]), request);
				const handle = peer.kvcr.fetch([F], { requestId: request });
				cluster.run(200);
				return outcomesOf(peer, handle);
			};
			expect(ask("first")).toEqual(["not_at_source"]);
			expect(owner.kvcr.stats().pins).toEqual({
				held: 0,
				pending: 0,
				releasing: 0,
			});
			nonsense = false;
			expect(ask("second")).toEqual(["SUCCESS"]);
		},
	);
});

it("settles nothing twice when a wake listener polls in the same turn", async () => {
	const peer = await target();
	const stop = peer.kvcr.onWake(() => queueMicrotask(() => cluster.poll()));
	const handle = fetchFrom(peer);
	completeWrites();
	await settle();
	stop();
	cluster.settle();
	expect(peer.results.filter((one) => one.handle === handle)).toHaveLength(1);
	releaseAll(peer, handle);
});
