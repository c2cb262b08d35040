import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
	type BlockKey,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	type Incarnation,
	type Kvcr,
	silentLogger,
	systemClock,
} from "../src/index.js";
import { createWired } from "../src/kvcr.js";
import { encodeControlMessage } from "../src/protocol/index.js";
import { MemoryFabric, MemoryNetwork } from "../src/testing/index.js";
import { type Wiring, wire } from "../src/wiring.js";
import {
	Cluster,
	hint,
	key,
	ListAdapter,
	leftovers,
	NOTHING_LEFT,
} from "./support/cluster.js";
import { Turns } from "./support/turns.js";

/** No piece of work may hold the event loop up for longer, in milliseconds. */
const STALL_MS = 20;
/** Share of pieces that first-time compilation or a collection may lengthen, and their bound. */
const OUTLIERS = 0.01;
const OUTLIER_MS = 100;

let network: MemoryNetwork;
let fabric: MemoryFabric;
let turns: Turns;
let running: Kvcr[];

beforeEach(() => {
	network = new MemoryNetwork();
	fabric = new MemoryFabric();
	turns = new Turns();
	running = [];
});
afterEach(async () => {
	await Promise.all(running.map((kvcr) => kvcr.close()));
});

/** An instance on the real clock whose every piece of work is measured, with an owner that polls when woken. */
async function peer(name: string, slots: number) {
	const adapter = new ListAdapter();
	let parts: Wiring | undefined;
	const kvcr = await createWired(
		{
			agent: fabric.agent(`agent-${name}`),
			channel: network.channel(name),
			adapter,
			pools: [{ name: "kv", slotBytes: 64, slotCount: slots }],
			operationTimeoutMs: 30_000,
			abandonTimeoutMs: 60_000,
			logger: silentLogger,
			clock: {
				now: systemClock.now,
				schedule: (ms, callback) =>
					systemClock.schedule(ms, () => turns.run(callback)),
			},
		},
		(...args) => {
			const wired = wire(...args);
			const receive = wired.inbox.receive.bind(wired.inbox);
			wired.inbox.receive = (bytes) => turns.run(() => receive(bytes));
			const pump = wired.pump.pump.bind(wired.pump);
			wired.pump.pump = () => turns.run(pump);
			parts = wired;
			return wired;
		},
	);
	running.push(kvcr);
	let due = false;
	kvcr.onWake(() => {
		if (due) return;
		due = true;
		setImmediate(() => {
			due = false;
			turns.run(() => kvcr.pollCompleted());
		});
	});
	return { kvcr, adapter, endpoint: network.endpoint(name), parts };
}

async function deposit(kvcr: Kvcr, keys: readonly BlockKey[]): Promise<void> {
	const bytes = new Uint8Array(64).fill(3);
	for (let i = 0; i < keys.length; i += 1_000) {
		kvcr.deposit(
			keys
				.slice(i, i + 1_000)
				.map((one) => ({ key: one, pieces: [{ label: "kv", bytes }] })),
		);
		await new Promise((resolve) => setImmediate(resolve));
	}
}

/** Counts outcomes until there are enough. */
function outcomes(count: number): Promise<ReadonlyMap<string, number>> {
	return new Promise((resolve) => {
		const seen = new Map<string, number>();
		let total = 0;
		const note = (message: unknown): void => {
			const { outcome } = message as HintOutcomeReport;
			seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
			total += 1;
			if (total < count) return;
			unsubscribe(HINT_OUTCOME_CHANNEL, note);
			resolve(seen);
		};
		subscribe(HINT_OUTCOME_CHANNEL, note);
	});
}

function keysFrom(first: bigint, count: number): BlockKey[] {
	return Array.from({ length: count }, (_, i) => key(first + BigInt(i)));
}

function learn(adapter: ListAdapter, keys: readonly BlockKey[]): void {
	for (const one of keys) adapter.learn(one);
}

function heapMb(): number {
	setFlagsFromString("--expose-gc");
	const gc = runInNewContext("gc") as () => void;
	gc();
	gc();
	return process.memoryUsage().heapUsed / 2 ** 20;
}

function expectNoStall(): void {
	expect(turns.longest(OUTLIERS)).toBeLessThan(STALL_MS);
	expect(turns.longest()).toBeLessThan(OUTLIER_MS);
}

describe("bounded work", () => {
	it("a hint of 100,000 hashes holds up no other traffic", async () => {
		const count = 100_000;
		const source = await peer("source", count);
		const target = await peer("target", count);
		const keys = keysFrom(2n ** 63n, count);
		learn(source.adapter, keys);
		await deposit(source.kvcr, keys);
		turns.clear();
		const all = outcomes(count);
		target.kvcr.submitHint(
			hint(
				source.endpoint,
				keys.map((_, i) => 2n ** 63n + BigInt(i)),
			),
		);
		expect(await all).toEqual(new Map([["placed", count]]));
		expect(turns.count).toBeGreaterThan(500);
		expectNoStall();
		expect(target.kvcr.stats()).toMatchObject({
			advice: 0,
			hintsPending: 0,
			cache: { claims: 0, ready: count },
			transfers: { pulls: {} },
		});
	}, 60_000);

	it("1,000 hints at once hold up no other traffic", async () => {
		const count = 32_000;
		const source = await peer("source", count);
		const target = await peer("target", count);
		const keys = keysFrom(0n, count);
		learn(source.adapter, keys);
		await deposit(source.kvcr, keys);
		turns.clear();
		const all = outcomes(count);
		for (let i = 0; i < 1_000; i += 1)
			target.kvcr.submitHint(
				hint(
					source.endpoint,
					Array.from({ length: 32 }, (_, j) => BigInt(i * 32 + j)),
				),
			);
		expect(await all).toEqual(new Map([["placed", count]]));
		expectNoStall();
	}, 60_000);

	it("hints of 100,000 hashes leave memory at its level", async () => {
		const source = await peer("source", 8);
		const target = await peer("target", 8);
		const hashes = Array.from({ length: 100_000 }, (_, i) => BigInt(i));
		const levels: number[] = [];
		for (let round = 0; round < 5; round += 1) {
			const all = outcomes(hashes.length);
			target.kvcr.submitHint(hint(source.endpoint, hashes));
			expect(await all).toEqual(new Map([["not_found", hashes.length]]));
			// What the test itself has written down.
			source.adapter.lookups.length = 0;
			turns.clear();
			levels.push(heapMb());
		}
		// The first rounds warm up; from then on nothing is added.
		expect((levels[4] ?? 0) - (levels[1] ?? 0)).toBeLessThan(4);
	}, 60_000);

	it("metadata of 10,000 peers is taken up message by message, and unloaded without a stall when they are idle", async () => {
		const cluster = new Cluster();
		const source = await cluster.peer("source");
		const receive = source.parts?.inbox.receive.bind(source.parts.inbox);
		if (receive === undefined) throw new Error("no inbox");
		const baseline = heapMb();
		for (let i = 0; i < 10_000; i += 1) {
			const agent = cluster.fabric.agent(`agent-${i}`);
			const region = await agent.createRegion({
				label: "kv",
				elementBytes: 8,
				elementCount: 1,
			});
			const message = encodeControlMessage({
				type: "target_metadata",
				header: {
					targetAgent: agent.name,
					senderIncarnation: i.toString(16).padStart(32, "0") as Incarnation,
					senderControlEndpoint: cluster.network.endpoint(`peer-${i}`),
				},
				peer: {
					metadata: agent.localMetadata(),
					regions: {
						framework: new Map(),
						managed: new Map([["kv", region.descriptor]]),
					},
				},
			});
			turns.run(() => receive(message));
			await agent.close();
			if (i % 500 === 499) cluster.settle();
		}
		expect(source.agent.remoteCount).toBe(10_000);
		expectNoStall();
		turns.clear();
		while (source.agent.remoteCount > 0 && cluster.clock.now() < 1_300_000)
			if (!turns.run(() => cluster.clock.runNext())) break;
		expect(source.agent.remoteCount).toBe(0);
		expectNoStall();
		expect(turns.count).toBeGreaterThan(100);
		expect(heapMb() - baseline).toBeLessThan(8);
		await cluster.close();
	}, 60_000);

	it("10,000 hints that nobody follows leave nothing behind, at either side", async () => {
		const cluster = new Cluster();
		const source = await cluster.peer("source");
		const target = await cluster.peer("target");
		const keys = keysFrom(1n, 8);
		cluster.deposit(source, ...keys);
		const expectations = target.agent.expectations;
		for (let i = 0; i < 10_000; i += 1) {
			target.kvcr.submitHint(
				hint(
					i % 2 === 0 ? source.endpoint : `memory://nobody-${i}`,
					keys.map((_, at) => BigInt(at + 1)),
					{ allow_framework: i % 3 === 0, mode: i % 5 === 0 ? "move" : "copy" },
				),
				`request-${i}`,
			);
			if (i % 100 === 99) cluster.settle();
		}
		for (let i = 0; i < 10_000; i += 1) target.kvcr.discardHint(`request-${i}`);
		cluster.run(5_000, 100);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
		expect(source.kvcr.stats().cache?.ready).toBe(keys.length);
		expect(target.agent.expectations).toBe(expectations);
		await cluster.close();
	}, 60_000);
});
