import { afterEach, describe, expect, it } from "vitest";
import {
	type BlockKey,
	type HintOutcomeReport,
	type Incarnation,
	Kvcr,
	type OpHandle,
	silentLogger,
} from "../src/index.js";
import { encodeControlMessage } from "../src/protocol/index.js";
import { MemoryFabric, MemoryNetwork } from "../src/testing/index.js";
import { hint, key, ListAdapter } from "./support/cluster.js";
import { Turns } from "./support/turns.js";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { HINT_OUTCOME_CHANNEL } from "../src/index.js";

class World {
	readonly network = new MemoryNetwork();
	readonly fabric = new MemoryFabric();
	readonly peers: Kvcr[] = [];
	readonly stops: (() => void)[] = [];

	async peer(name: string, slots: number, adapter = new ListAdapter()) {
		const kvcr = await Kvcr.create({
			agent: this.fabric.agent(`agent-${name}`),
			channel: this.network.channel(name),
			adapter,
			pools: [{ name: "kv", slotBytes: 64, slotCount: slots }],
			operationTimeoutMs: 20_000,
			abandonTimeoutMs: 40_000,
			logger: silentLogger,
		});
		this.peers.push(kvcr);
		let due = false;
		this.stops.push(
			kvcr.onWake(() => {
				if (due) return;
				due = true;
				setImmediate(() => {
					due = false;
					kvcr.pollCompleted();
				});
			}),
		);
		return { kvcr, adapter, endpoint: this.network.endpoint(name) };
	}

	async close(): Promise<void> {
		for (const stop of this.stops) stop();
		await Promise.all(this.peers.map((kvcr) => kvcr.close()));
	}
}

let world: World | undefined;
afterEach(() => world?.close());

async function deposit(kvcr: Kvcr, keys: readonly BlockKey[]): Promise<void> {
	const bytes = new Uint8Array(64).fill(3);
	for (let i = 0; i < keys.length; i += 1000) {
		kvcr.deposit(
			keys
				.slice(i, i + 1000)
				.map((one) => ({ key: one, pieces: [{ label: "kv", bytes }] })),
		);
		await new Promise((resolve) => setImmediate(resolve));
	}
}

/** Counts outcomes until there are enough. */
function outcomes(count: number): Promise<Map<string, number>> {
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

describe("bounded work", () => {
	it("a hint of 100,000 hashes", async () => {
		world = new World();
		const source = await world.peer("source", 100_000);
		const target = await world.peer("target", 100_000);
		const keys = Array.from({ length: 100_000 }, (_, i) =>
			key(2n ** 63n + BigInt(i)),
		);
		source.adapter.learn(...keys.slice(0, 50_000));
		source.adapter.learn(...keys.slice(50_000));
		await deposit(source.kvcr, keys);
		const text = JSON.stringify(hint(source.endpoint, []), null).replace(
			"[]}",
			`[${keys.map((_, i) => 2n ** 63n + BigInt(i)).join(",")}]}`,
		);
		const turns = new Turns();
		const all = outcomes(keys.length);
		const t0 = performance.now();
		target.kvcr.submitHint(text);
		const seen = await all;
		const took = performance.now() - t0;
		turns.stop();
		console.log("100k hint", took, Object.fromEntries(seen), turns.report());
		expect(seen).toEqual(new Map([["placed", 100_000]]));
	}, 60_000);

	it("1,000 hints at once", async () => {
		world = new World();
		const source = await world.peer("source", 32_000);
		const target = await world.peer("target", 32_000);
		const keys = Array.from({ length: 32_000 }, (_, i) => key(BigInt(i)));
		source.adapter.learn(...keys);
		await deposit(source.kvcr, keys);
		const turns = new Turns();
		const all = outcomes(keys.length);
		for (let i = 0; i < 1_000; i += 1)
			target.kvcr.submitHint(
				hint(
					source.endpoint,
					Array.from({ length: 32 }, (_, j) => BigInt(i * 32 + j)),
				),
			);
		const seen = await all;
		turns.stop();
		console.log("1000 hints", Object.fromEntries(seen), turns.report());
		expect(seen).toEqual(new Map([["placed", 32_000]]));
	}, 60_000);

	it("metadata of 10,000 peers", async () => {
		world = new World();
		const source = await world.peer("source", 16);
		const { fabric, network } = world;
		const messages: Uint8Array[] = [];
		for (let i = 0; i < 10_000; i += 1) {
			const agent = fabric.agent(`agent-${i}`);
			const region = await agent.createRegion({
				label: "kv",
				elementBytes: 64,
				elementCount: 4,
			});
			messages.push(
				encodeControlMessage({
					type: "target_metadata",
					header: {
						targetAgent: agent.name,
						senderIncarnation: i.toString(16).padStart(32, "0") as Incarnation,
						senderControlEndpoint: `memory://peer-${i}`,
					},
					peer: {
						metadata: agent.localMetadata(),
						regions: {
							framework: new Map(),
							managed: new Map([["kv", region.descriptor]]),
						},
					},
				}),
			);
		}
		const channel = network.channel("sender");
		await channel.start(() => {});
		const turns = new Turns();
		for (const message of messages) channel.send(source.endpoint, message);
		while (source.kvcr.stats().peers.targets < 10_000)
			await new Promise((resolve) => setImmediate(resolve));
		turns.stop();
		console.log("10k peers", turns.report());
	}, 60_000);
});
void (0 as unknown as OpHandle);
