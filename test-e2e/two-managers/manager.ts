/** A manager process: an engine simulator and its tier, over real ZeroMQ and a real transfer agent. */
import { subscribe } from "node:diagnostics_channel";
import {
	blockKey,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	silentLogger,
	type TransferAgent,
} from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { type ReverseHashMap, VllmKvcrTier } from "kvcr-vllm-adapter";
import type {
	CommandName,
	Commands,
	ManagerOptions,
	Request,
} from "./commands.js";
import { EngineSimulator } from "./engine/engine.js";
import { PrimaryTier } from "./engine/primary-tier.js";
import { EventFedMap, EventStream } from "./event-stream.js";

/** Between two steps, in milliseconds. */
const STEP_MS = 1;
/** Bytes of a block. */
const BLOCK_BYTES = 16_384;

type Handlers = {
	[N in CommandName]: (
		...args: Commands[N]["args"]
	) => Commands[N]["result"] | Promise<Commands[N]["result"]>;
};

const options = JSON.parse(process.argv[2] ?? "{}") as ManagerOptions;
const handlers = await start(options);

process.on("message", async ({ id, name, args }: Request) => {
	try {
		const handler = handlers[name] as (
			...values: readonly unknown[]
		) => unknown;
		process.send?.({ id, ok: true, value: await handler(...args) });
	} catch (error) {
		process.send?.({ id, ok: false, error: String(error) });
	}
	// From here on nothing keeps the process: it must end by itself.
	if (name === "shutdown") process.disconnect();
});
process.send?.({ id: 0, ok: true, value: handlers.info() });

async function start(settings: ManagerOptions): Promise<Handlers> {
	const {
		name,
		hashBytes = 32,
		groups = 1,
		events = true,
		primaryBlocks = 32,
		managedBlocks = 32,
		operationTimeoutMs = 5000,
	} = settings;
	const agent = await makeAgent(settings);
	const primaryRegion = await agent.createRegion({
		label: "",
		elementBytes: BLOCK_BYTES,
		elementCount: primaryBlocks,
	});
	const outcomes: HintOutcomeReport[] = [];
	const waiters = new Set<() => void>();
	subscribe(HINT_OUTCOME_CHANNEL, (message) => {
		outcomes.push(message as HintOutcomeReport);
		for (const waiter of waiters) waiter();
	});
	const tier = await VllmKvcrTier.create({
		agent,
		channel: new ZmqControlChannel({ port: 0 }),
		primary: primaryRegion,
		managedBlocks,
		kvEvents: { enableKvCacheEvents: events, selfDescribingKvEvents: events },
		...(settings.eventStream !== undefined && { map: new EventFedMap() }),
		operationTimeoutMs,
		abandonTimeoutMs: 2 * operationTimeoutMs,
		logger: silentLogger,
	});
	let mapLookups = 0;
	if (tier.adapter.map !== undefined)
		watch(tier.adapter.map, () => {
			mapLookups += 1;
		});
	const primary = new PrimaryTier(primaryRegion);
	const engine = new EngineSimulator(tier, primary, {
		hashBytes,
		groups,
		blockBytes: BLOCK_BYTES,
	});
	const stream =
		settings.eventStream !== undefined && tier.adapter.map !== undefined
			? await EventStream.start(tier.adapter.map, settings.eventStream)
			: undefined;
	let published = 0;
	const publish = (): void => {
		if (engine.events.length > published)
			stream?.publish(engine.events.slice(published));
		published = engine.events.length;
	};
	let stepping = true;
	let timer: NodeJS.Timeout | undefined;
	const loop = (): void => {
		if (!stepping) return;
		engine.step();
		publish();
		timer = setTimeout(loop, STEP_MS);
	};
	loop();

	return {
		run: (request) => engine.run(request),
		hashes: (request) =>
			engine.keysOf(request).map((key) => tier.adapter.decode(blockKey(key))),
		report: () => ({
			worker: name,
			control_endpoint: tier.endpoint ?? "",
			router_capabilities: tier.routerCapabilities,
			events: engine.events.map(({ keys, ...event }) => ({
				...event,
				keys: keys.map((key) => Buffer.from(key).toString("hex")),
			})),
		}),
		outcomes: (count) =>
			new Promise((resolve) => {
				const check = (): void => {
					if (outcomes.length < count) return;
					waiters.delete(check);
					resolve(outcomes);
				};
				waiters.add(check);
				check();
			}),
		events(fate) {
			if (stream !== undefined) stream.fate = fate;
			return undefined;
		},
		intake() {
			if (stream === undefined) throw new Error("events are not published");
			return stream.stats();
		},
		reset() {
			engine.reset();
			publish();
			return undefined;
		},
		step(on) {
			clearTimeout(timer);
			stepping = on;
			loop();
			return undefined;
		},
		stats() {
			const stats = tier.stats();
			return {
				tier: stats,
				engine: engine.open,
				held: primary.held,
				strayResults: engine.strayResults,
				servedJobs: engine.servedJobs,
				mapLookups,
				received: receivedByType(stats.kvcr.counters),
			};
		},
		info: () => ({ endpoint: tier.endpoint ?? "" }),
		async shutdown() {
			await tier.shutdown();
			stepping = false;
			clearTimeout(timer);
			await stream?.close();
			return undefined;
		},
	};
}

async function makeAgent({ agent }: ManagerOptions): Promise<TransferAgent> {
	if (agent === "nixl") {
		const { NixlTransferAgent } = await import("kvcr-nixl");
		return NixlTransferAgent.create();
	}
	const { PortableTransferAgent } = await import("kvcr-core/portable");
	return PortableTransferAgent.create();
}

/** Counts the questions to a reverse map; its answers stay what they are. */
function watch(map: ReverseHashMap, asked: () => void): void {
	for (const name of [
		"lookup",
		"lookupMany",
		"resolve",
		"status",
		"statusMany",
		"candidates",
	] as const) {
		const method = map[name].bind(map) as (argument: never) => unknown;
		Object.defineProperty(map, name, {
			value: (argument: never) => {
				asked();
				return method(argument);
			},
		});
	}
}

/** Control messages received, from the counters of core. */
function receivedByType(
	counters: Readonly<Record<string, number>>,
): Record<string, number> {
	const received: Record<string, number> = {};
	for (const [series, count] of Object.entries(counters)) {
		const type = /^kvcr_control_received_total\{type="(.*)"\}$/.exec(
			series,
		)?.[1];
		if (type !== undefined) received[type] = count;
	}
	return received;
}
