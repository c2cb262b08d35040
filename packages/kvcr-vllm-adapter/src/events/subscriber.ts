/** Subscription to the KV cache events of any number of publishers: options and life cycle. */
import {
	AlreadyStartedError,
	ClosedError,
	consoleLogger,
	guardedLogger,
	InvalidArgumentError,
	InvalidEndpointError,
	type Logger,
	systemClock,
} from "kvcr-core";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import { MAX_TIERS, TIER_BITS } from "../reverse-map/tiers.js";
import type { IntegerHashesError } from "./decode.js";
import { ZeromqUnavailableError } from "./errors.js";
import { Names } from "./names.js";
import { PublisherIntake, type Zeromq } from "./publisher-intake.js";
import type { PublisherStats } from "./publisher-stream.js";
import { Sweeper } from "./sweeper.js";

/** One publisher socket of vLLM, and the socket that replays its past. */
export interface KvEventPublisher {
	/** Where events are published, e.g. `tcp://127.0.0.1:5557`. A host name is looked up again when its connection breaks. */
	readonly endpoint: string;
	/** Where replays are answered. @default none: every gap clears what the publisher reported */
	readonly replayEndpoint?: string;
	/** Topic prefix to subscribe to. @default "" (everything) */
	readonly topic?: string;
}

/** Options of a {@link KvEventSubscriber}. */
export interface KvEventSubscriberOptions {
	/** The map to feed; usually `adapter.map` of a `VllmKeyAdapter`. */
	readonly map: ReverseHashMap;
	/**
	 * One entry per publisher socket, each once, 27 at most; see {@link rankPublishers} for data-parallel ranks. A map
	 * credits 27 places: each rank of a publisher takes one per medium, locality and owner it names, e.g. 13 ranks with GPU
	 * and CPU. Stores in places beyond that are counted as `tierLimit` and logged once per publisher.
	 */
	readonly publishers: readonly KvEventPublisher[];
	/** @default warnings and errors to the console */
	readonly logger?: Logger;
	/** Called once per publisher that sends integer hashes. The error is logged in any case. */
	readonly onError?: (error: IntegerHashesError) => void;
	/**
	 * Largest payload in bytes; a larger one is dropped and counted after its receipt. ZeroMQ refuses frames above 256 MiB
	 * or twice this limit, whichever is more, before they take memory; the connection is then made anew.
	 * @default 64 MiB
	 */
	readonly maxPayloadBytes?: number;
	/** Live batches that may wait for a replay. @default 10,000 */
	readonly maxWaiting?: number;
	/** The memory they may take, payloads and what was decoded from them, in bytes. @default 256 MiB */
	readonly maxWaitingBytes?: number;
	/** Longest silence within a replay, in milliseconds. @default 2,000 */
	readonly replayTimeoutMs?: number;
	/** Longest replay, in milliseconds. @default 30,000 */
	readonly replayDeadlineMs?: number;
	/** Messages queued in a socket before the publisher drops; a drop is noticed as a gap. @default 100,000 */
	readonly receiveHighWaterMark?: number;
	/** Finds the numeric address of a publisher's host name; rejects when there is none. @default asks the system */
	readonly lookup?: (host: string) => Promise<string>;
}

/** Places one map can credit: its tiers without those of core's own inventory. */
const MAX_CREDITED = MAX_TIERS - Object.keys(TIER_BITS).length;

const MIB = 1 << 20;
const NUMBERS = {
	maxPayloadBytes: 64 * MIB,
	maxWaiting: 10_000,
	maxWaitingBytes: 256 * MIB,
	replayTimeoutMs: 2_000,
	replayDeadlineMs: 30_000,
	receiveHighWaterMark: 100_000,
};

/**
 * The publishers of an engine's data-parallel ranks: rank `r` publishes, and replays, on the given ports plus `r`.
 * @throws InvalidArgumentError for a count that is no integer of 1 to 27, as many as a map can credit; InvalidEndpointError for an endpoint without port.
 */
export function rankPublishers(
	first: KvEventPublisher,
	ranks: number,
): KvEventPublisher[] {
	if (typeof first !== "object" || first === null)
		throw new InvalidArgumentError(
			"rankPublishers",
			"first",
			first,
			"the publisher of rank 0",
		);
	if (!Number.isInteger(ranks) || ranks < 1 || ranks > MAX_CREDITED)
		throw new InvalidArgumentError(
			"rankPublishers",
			"ranks",
			ranks,
			`an integer of 1 to ${MAX_CREDITED}, which is how many places a map can credit`,
		);
	return Array.from({ length: ranks }, (_, rank) => ({
		...first,
		endpoint: shifted(first.endpoint, rank),
		...(first.replayEndpoint === undefined
			? {}
			: { replayEndpoint: shifted(first.replayEndpoint, rank) }),
	}));
}

function shifted(endpoint: string, by: number): string {
	const match = /^(tcp:\/\/.+):(\d+)$/.exec(endpoint);
	const port = Number(match?.[2]) + by;
	if (match === null || port > 65_535)
		throw new InvalidEndpointError(
			"rankPublishers",
			endpoint,
			"tcp://host:port with room for all ranks",
		);
	return `${match[1]}:${port}`;
}

/**
 * Feeds a reverse hash map from vLLM's KV cache events. In a worker thread, close it before the thread ends in
 * any way, `process.exit` and `worker.terminate()` included: the ZeroMQ binding aborts the whole process when a thread
 * ends with a pending receive.
 *
 * @example
 * const adapter = new VllmKeyAdapter({ events: true });
 * const events = new KvEventSubscriber({
 * 	map: adapter.map,
 * 	publishers: [{ endpoint: "tcp://127.0.0.1:5557", replayEndpoint: "tcp://127.0.0.1:5558" }],
 * });
 * await events.start();
 */
export class KvEventSubscriber {
	readonly #publishers: readonly KvEventPublisher[];
	readonly #map: ReverseHashMap;
	readonly #limits: typeof NUMBERS;
	readonly #logger: Logger;
	readonly #onError: (error: IntegerHashesError) => void;
	readonly #intakes: PublisherIntake[] = [];
	readonly #names: Names;
	#state: "idle" | "started" | "closed" = "idle";
	#sweepFailures = 0;

	/** @throws InvalidArgumentError for an unusable option. */
	constructor(options: KvEventSubscriberOptions) {
		const operation = "KvEventSubscriber";
		if (typeof options !== "object" || options === null)
			throw new InvalidArgumentError(
				operation,
				"options",
				options,
				"an object with map and publishers",
			);
		this.#map = options.map;
		this.#publishers = options.publishers;
		if (typeof this.#map?.addHash !== "function")
			throw new InvalidArgumentError(
				operation,
				"options.map",
				this.#map,
				"a ReverseHashMap (an adapter constructed with { events: true } has one)",
			);
		if (!Array.isArray(this.#publishers) || this.#publishers.length === 0)
			throw new InvalidArgumentError(
				operation,
				"options.publishers",
				this.#publishers,
				"a list of at least one publisher",
			);
		if (this.#publishers.length > MAX_CREDITED)
			throw new InvalidArgumentError(
				operation,
				"options.publishers",
				this.#publishers.length,
				`a list of at most ${MAX_CREDITED} publishers, which is how many places a map can credit`,
			);
		const seen = new Set<string>();
		for (const publisher of this.#publishers) {
			checkPublisher(publisher);
			if (seen.has(publisher.endpoint))
				throw new InvalidArgumentError(
					operation,
					"options.publishers",
					publisher.endpoint,
					"a list that has each endpoint once",
				);
			seen.add(publisher.endpoint);
		}
		const limits = { ...NUMBERS };
		for (const name of Object.keys(NUMBERS) as (keyof typeof NUMBERS)[]) {
			const value = options[name] ?? NUMBERS[name];
			if (!Number.isInteger(value) || value < 1 || value > 0x7fff_ffff)
				throw new InvalidArgumentError(
					operation,
					`options.${name}`,
					value,
					"a positive integer",
				);
			limits[name] = value;
		}
		this.#limits = limits;
		this.#logger = guardedLogger(options.logger ?? consoleLogger);
		this.#onError = options.onError ?? (() => {});
		const { lookup } = options;
		if (lookup !== undefined && typeof lookup !== "function")
			throw new InvalidArgumentError(
				operation,
				"options.lookup",
				lookup,
				"a function",
			);
		this.#names = new Names(lookup);
	}

	/**
	 * Connects to all publishers. A publisher that is not there yet is waited for in the background. After a failure nothing
	 * is left open, and it may be called again.
	 * @throws AlreadyStartedError, ClosedError; ZeromqUnavailableError when zeromq is not installed; ConnectFailedError when
	 * it refuses an endpoint.
	 */
	async start(): Promise<void> {
		if (this.#state === "closed")
			throw new ClosedError("KvEventSubscriber.start", "the subscriber");
		if (this.#state === "started")
			throw new AlreadyStartedError(
				"KvEventSubscriber.start",
				"the subscriber",
			);
		this.#state = "started";
		let zeromq: Zeromq;
		try {
			zeromq = await import("zeromq");
		} catch (cause) {
			this.#state = "idle";
			throw new ZeromqUnavailableError("KvEventSubscriber.start", cause);
		}
		// Closed while the module was loading.
		if ((this.#state as string) === "closed") return;
		const sweeper = new Sweeper(this.#map, systemClock, (error) =>
			this.#sweepFailed(error),
		);
		try {
			for (const publisher of this.#publishers)
				this.#intakes.push(
					new PublisherIntake(zeromq, publisher, {
						map: this.#map,
						sweeper,
						names: this.#names,
						limits: this.#limits,
						logger: this.#logger,
						onError: this.#onError,
					}),
				);
		} catch (error) {
			this.#state = "idle";
			await Promise.all(this.#intakes.splice(0).map((each) => each.close()));
			throw error;
		}
	}

	/** Counters per publisher, by its endpoint. Empty before the start. */
	stats(): ReadonlyMap<string, PublisherStats> {
		return new Map(
			this.#intakes.map((intake) => [intake.endpoint, intake.stats()]),
		);
	}

	/**
	 * Closes all sockets. What the publishers reported leaves the map, since it is no longer kept up to date. Closing twice
	 * resolves.
	 */
	async close(): Promise<void> {
		this.#state = "closed";
		this.#names.close();
		await Promise.all(this.#intakes.map((intake) => intake.close()));
	}

	/** Tried again a second later, and so logged at the first, the second, the fourth… time. */
	#sweepFailed(error: unknown): void {
		const times = ++this.#sweepFailures;
		if ((times & (times - 1)) !== 0) return;
		this.#logger.error(
			{ error, times },
			"blocks that left could not be taken out of the reverse hash map",
		);
	}
}

function checkPublisher(publisher: KvEventPublisher): void {
	const { endpoint, replayEndpoint, topic } = publisher ?? {};
	for (const address of [endpoint, replayEndpoint ?? endpoint])
		if (typeof address !== "string" || !isAddress(address))
			throw new InvalidEndpointError(
				"KvEventSubscriber",
				address,
				"tcp://host:port, ipc://path or inproc://name",
			);
	if (topic !== undefined && typeof topic !== "string")
		throw new InvalidArgumentError(
			"KvEventSubscriber",
			"options.publishers.topic",
			topic,
			"a string",
		);
}

function isAddress(address: string): boolean {
	const port = /^tcp:\/\/[^\s*/]+:(\d{1,5})$/.exec(address)?.[1];
	if (port !== undefined) return Number(port) >= 1 && Number(port) <= 65_535;
	return /^(ipc|inproc):\/\/[^\s*]+$/.test(address);
}
