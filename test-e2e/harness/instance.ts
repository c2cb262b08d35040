/** One instance of an e2e test and the commands it obeys, wherever it runs: in a process of its own, or in the test's. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import {
	type ControlChannel,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	type InventoryEvent,
	Kvcr,
	KvcrDriver,
	type OperationResult,
	type ReleaseHandle,
	type StateLockHold,
	silentLogger,
	type TransferAgent,
} from "kvcr-core";
import { Relay } from "../../packages/kvcr-nixl/test/relay.js";
import { ListAdapter, pieceBytes } from "./blocks.js";
import type {
	CommandName,
	Commands,
	EntryReport,
	WorkerOptions,
} from "./commands.js";
import { flipOneBit } from "./flipping.js";
import { WorkerFramework } from "./framework.js";

export type Handlers = {
	[N in CommandName]: (
		...args: Commands[N]["args"]
	) => Commands[N]["result"] | Promise<Commands[N]["result"]>;
};

/** An instance and how to end it. */
export interface Instance {
	readonly handlers: Handlers;
}

/** Builds an instance around ports the caller may choose. */
export async function createInstance(
	options: WorkerOptions,
	ports: {
		readonly agent?: TransferAgent;
		readonly channel?: ControlChannel;
	} = {},
): Promise<Instance> {
	const pools = options.pools ?? [
		{ name: "kv", slotBytes: 65_536, slotCount: 64 },
	];

	let relay: Relay | undefined;

	async function makeAgent(): Promise<TransferAgent> {
		if (options.agent === "nixl") {
			const { NixlTransferAgent } = await import("kvcr-nixl");
			const create = () =>
				NixlTransferAgent.create(
					options.agentName === undefined ? {} : { name: options.agentName },
				);
			if (!options.behindRelay) return create();
			const [agent, before] = await Relay.before(create);
			relay = before;
			const metadata = agent.localMetadata.bind(agent);
			agent.localMetadata = () => before.redirect(metadata());
			return agent;
		}
		const { PortableTransferAgent } = await import("kvcr-core/portable");
		return PortableTransferAgent.create();
	}

	async function makeChannel(): Promise<ControlChannel> {
		if (options.channel === "nats") {
			const { NatsControlChannel } = await import("kvcr-transport-nats");
			return new NatsControlChannel({
				connect: { servers: options.natsServer ?? "" },
				prefix: "kvcr",
				peer: options.name,
			});
		}
		const { ZmqControlChannel } = await import("kvcr-transport-zmq");
		return new ZmqControlChannel({
			port: options.port ?? 0,
			...(options.advertise !== undefined && { advertise: options.advertise }),
		});
	}

	const agent = ports.agent ?? (await makeAgent());
	if (options.flipsOneBit) flipOneBit(agent);
	const regions = await Promise.all(
		pools.map(({ name, slotBytes }) =>
			agent.createRegion({
				label: name,
				elementBytes: slotBytes,
				elementCount: options.frameworkElements ?? 16,
			}),
		),
	);
	const framework = new WorkerFramework(regions, options.frameworkBlocks ?? []);
	const adapter = new ListAdapter();
	const inventory: InventoryEvent[] = [];
	const outcomes: HintOutcomeReport[] = [];
	const outcomeWaiters = new Set<() => void>();
	const onOutcome = (message: unknown): void => {
		const report = message as HintOutcomeReport & { instance: string };
		if (report.instance !== kvcr.incarnation) return;
		outcomes.push(report);
		for (const waiter of outcomeWaiters) waiter();
	};
	subscribe(HINT_OUTCOME_CHANNEL, onOutcome);

	const kvcr = await Kvcr.create({
		agent,
		channel: ports.channel ?? (await makeChannel()),
		adapter,
		pools,
		frameworkRegions: regions,
		pins: framework,
		inventorySink: (event) => {
			inventory.push(event);
			if (options.followInventory === false) return;
			if (event.removed) adapter.forget(event.keys);
			else adapter.learn(event.keys);
		},
		logger: silentLogger,
		...(options.operationTimeoutMs !== undefined && {
			operationTimeoutMs: options.operationTimeoutMs,
		}),
		...(options.abandonTimeoutMs !== undefined && {
			abandonTimeoutMs: options.abandonTimeoutMs,
		}),
		...(options.eagerConnect !== undefined && {
			eagerConnect: options.eagerConnect,
		}),
		...(options.exclusiveEndpoint !== undefined && {
			exclusiveEndpoint: options.exclusiveEndpoint,
		}),
		...(options.integrity !== undefined && { integrity: options.integrity }),
	});
	let driver: KvcrDriver | undefined = new KvcrDriver(kvcr);
	let hold: StateLockHold | undefined;
	for (const { key } of options.frameworkBlocks ?? []) adapter.learn([key]);

	function owner(): KvcrDriver {
		if (driver === undefined) throw new Error("the owner does not poll");
		return driver;
	}

	function reportOf(
		{ entries }: OperationResult,
		bytesOk: (
			entry: OperationResult["entries"][number],
			index: number,
		) => boolean | undefined,
	): EntryReport[] {
		return entries.map((entry, index) => ({
			key: entry.key,
			status: entry.status,
			reason: entry.reason,
			bytesOk: entry.status === "SUCCESS" ? bytesOk(entry, index) : undefined,
			releaseHandle: entry.releaseHandle,
		}));
	}

	function slotBytes(label: string): number {
		const name = label.split(":")[0];
		return pools.find((pool) => pool.name === name)?.slotBytes ?? 0;
	}

	const handlers: Handlers = {
		async deposit(blocks, more = {}) {
			const result = await owner().deposit(
				blocks.map(({ key, layout = ["kv"] }) => ({
					key,
					pieces: layout.map((label, piece) => ({
						label,
						bytes: pieceBytes(key, piece, slotBytes(label)),
					})),
				})),
				more,
			);
			return reportOf(result, () => undefined);
		},
		submitHint(text, requestId) {
			kvcr.submitHint(text, requestId);
			return undefined;
		},
		discardHint(requestId) {
			kvcr.discardHint(requestId);
			return undefined;
		},
		query: (keys, requestId) =>
			kvcr.query(keys, requestId === undefined ? {} : { requestId }),
		async fetch(keys, more = {}) {
			const result = await owner().fetch(keys, more);
			return reportOf(result, ({ key, pieces = [] }) =>
				pieces.every(
					({ region, element }, piece) =>
						Buffer.compare(
							region.element(element),
							pieceBytes(key, piece, region.elementBytes),
						) === 0,
				),
			);
		},
		async deliver(blocks, requestId) {
			const destinations = blocks.map(({ key, layout = ["kv"] }) => ({
				key,
				pieces: framework.take(layout),
			}));
			const pieceOf = (index: number, at: number): number =>
				blocks[index]?.pieces?.[at] ?? at;
			for (const { pieces } of destinations)
				for (const { region, element } of pieces)
					region.element(element).fill(0);
			const result = await owner().deliver(
				destinations,
				requestId === undefined ? {} : { requestId },
			);
			return reportOf(result, ({ key }, index) =>
				(destinations[index]?.pieces ?? []).every(
					({ region, element }, at) =>
						Buffer.compare(
							region.element(element),
							pieceBytes(key, pieceOf(index, at), region.elementBytes),
						) === 0,
				),
			);
		},
		release: (handles) =>
			kvcr
				.release(handles as readonly ReleaseHandle[])
				.map(({ released }) => released),
		outcomes: (count) =>
			new Promise((resolve) => {
				const check = (): void => {
					if (outcomes.length < count) return;
					outcomeWaiters.delete(check);
					resolve(outcomes);
				};
				outcomeWaiters.add(check);
				check();
			}),
		inventory: () => inventory,
		learn(keys) {
			adapter.learn(keys);
			return undefined;
		},
		forget(keys) {
			adapter.forget(keys);
			return undefined;
		},
		lookups: () => adapter.lookups,
		poll(on) {
			if (on) driver ??= new KvcrDriver(kvcr);
			else {
				driver?.stop();
				driver = undefined;
			}
			return undefined;
		},
		lock(on) {
			if (on) hold ??= kvcr.lockState();
			else {
				hold?.release();
				hold = undefined;
			}
			return undefined;
		},
		resetConnections() {
			relay?.reset();
			return undefined;
		},
		block(ms) {
			Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
			return undefined;
		},
		stats: () => kvcr.stats(),
		usage() {
			(globalThis as { gc?: () => void }).gc?.();
			const { heapUsed, external, rss } = process.memoryUsage();
			const { user, system } = process.cpuUsage();
			return { heapUsed, external, rss, cpuSeconds: (user + system) / 1e6 };
		},
		info: () => ({
			endpoint: kvcr.endpoint ?? "",
			incarnation: kvcr.incarnation,
			agent: agent.info,
		}),
		async close() {
			driver?.stop();
			await kvcr.close();
			await relay?.close();
			unsubscribe(HINT_OUTCOME_CHANNEL, onOutcome);
			return undefined;
		},
	};
	return { handlers };
}
