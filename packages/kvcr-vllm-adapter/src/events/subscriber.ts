/** Subscription to KV cache events over ZeroMQ: sockets and their life cycle, nothing else. */
import {
	AlreadyStartedError,
	ClosedError,
	consoleLogger,
	InvalidArgumentError,
	InvalidEndpointError,
	type Logger,
} from "kvcr-core";
import type { Dealer, Subscriber } from "zeromq";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import { Sweeper } from "./credit.js";
import type { IntegerHashesError } from "./decode.js";
import { type PublisherStats, PublisherStream } from "./publisher-stream.js";

/** One publisher socket of vLLM, and the socket that replays its past. */
export interface KvEventPublisher {
	/** Where events are published, e.g. `tcp://127.0.0.1:5557`. */
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
	/** One entry per publisher socket; see {@link rankPublishers} for data-parallel ranks. */
	readonly publishers: readonly KvEventPublisher[];
	/** @default warnings and errors to the console */
	readonly logger?: Logger;
	/** Called once per publisher that sends integer hashes. The error is logged in any case. */
	readonly onError?: (error: IntegerHashesError) => void;
	/** Largest payload in bytes. @default 64 MiB */
	readonly maxPayloadBytes?: number;
	/** Live batches that may wait for a replay. @default 10,000 */
	readonly maxWaiting?: number;
	/** Their bytes. @default 128 MiB */
	readonly maxWaitingBytes?: number;
	/** Longest silence within a replay, in milliseconds. @default 2,000 */
	readonly replayTimeoutMs?: number;
	/** Longest replay, in milliseconds. @default 30,000 */
	readonly replayDeadlineMs?: number;
	/** Messages queued in a socket before the publisher drops; a drop is noticed as a gap. @default 100,000 */
	readonly receiveHighWaterMark?: number;
}

const MIB = 1 << 20;
const NUMBERS = {
	maxPayloadBytes: 64 * MIB,
	maxWaiting: 10_000,
	maxWaitingBytes: 128 * MIB,
	replayTimeoutMs: 2_000,
	replayDeadlineMs: 30_000,
	receiveHighWaterMark: 100_000,
};

type Zeromq = typeof import("zeromq");

/**
 * The publishers of an engine's data-parallel ranks: rank `r` publishes, and replays, on the given ports plus `r`.
 * @throws InvalidArgumentError for a count that is no positive integer; InvalidEndpointError for an endpoint without port.
 */
export function rankPublishers(
	first: KvEventPublisher,
	ranks: number,
): KvEventPublisher[] {
	if (!Number.isInteger(ranks) || ranks < 1 || ranks > 1024)
		throw new InvalidArgumentError(
			"rankPublishers",
			"ranks",
			ranks,
			"an integer of 1 to 1,024",
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
 * Feeds a reverse hash map from vLLM's KV cache events.
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
	#state: "idle" | "started" | "closed" = "idle";

	/** @throws InvalidArgumentError for an unusable option. */
	constructor(options: KvEventSubscriberOptions) {
		const operation = "KvEventSubscriber";
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
		for (const { endpoint, replayEndpoint } of this.#publishers)
			for (const address of [endpoint, replayEndpoint ?? endpoint])
				if (!/^(tcp|ipc|inproc):\/\/[^\s*]+$/.test(address))
					throw new InvalidEndpointError(
						operation,
						address,
						"tcp://host:port, ipc://path or inproc://name",
					);
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
		this.#logger = options.logger ?? consoleLogger;
		this.#onError = options.onError ?? (() => {});
	}

	/**
	 * Connects to all publishers. A publisher that is not there yet is waited for in the background.
	 * @throws AlreadyStartedError, ClosedError; an error of module loading when zeromq is not installed.
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
			throw new Error(
				"KvEventSubscriber.start: the package zeromq is needed and could not be loaded; install it beside kvcr-vllm-adapter",
				{ cause },
			);
		}
		// Closed while the module was loading.
		if ((this.#state as string) === "closed") return;
		const sweeper = new Sweeper(this.#map);
		for (const publisher of this.#publishers) {
			const intake = new PublisherIntake(zeromq, publisher, {
				map: this.#map,
				sweeper,
				limits: this.#limits,
				logger: this.#logger,
				onError: this.#onError,
			});
			this.#intakes.push(intake);
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
		await Promise.all(this.#intakes.map((intake) => intake.close()));
	}
}

interface IntakeParts {
	readonly map: ReverseHashMap;
	readonly sweeper: Sweeper;
	readonly limits: typeof NUMBERS;
	readonly logger: Logger;
	readonly onError: (error: IntegerHashesError) => void;
}

/** The sockets of one publisher. Owns them; `close` ends every loop. */
class PublisherIntake {
	readonly endpoint: string;
	readonly #zeromq: Zeromq;
	readonly #publisher: KvEventPublisher;
	readonly #parts: IntakeParts;
	readonly #stream: PublisherStream;
	readonly #socket: Subscriber;
	readonly #receiving: Promise<void>;
	/** The replay under way of each rank, with its loop. */
	readonly #replays = new Map<number | undefined, Dealer>();
	readonly #loops = new Set<Promise<void>>();
	#closed = false;
	#failed = false;

	constructor(zeromq: Zeromq, publisher: KvEventPublisher, parts: IntakeParts) {
		const { limits } = parts;
		this.endpoint = publisher.endpoint;
		this.#zeromq = zeromq;
		this.#publisher = publisher;
		this.#parts = parts;
		this.#stream = new PublisherStream({
			...parts,
			...limits,
			name: publisher.endpoint,
			canReplay: publisher.replayEndpoint !== undefined,
			replays: {
				request: (rank, seq) => this.#replay(rank, seq),
				cancel: (rank) => this.#cancel(rank),
			},
		});
		this.#socket = new zeromq.Subscriber({
			linger: 0,
			receiveHighWaterMark: limits.receiveHighWaterMark,
			maxMessageSize: limits.maxPayloadBytes,
		});
		this.#socket.events.on("disconnect", () => this.#stream.interrupted());
		this.#socket.connect(publisher.endpoint);
		this.#socket.subscribe(publisher.topic ?? "");
		this.#receiving = this.#receive();
	}

	stats(): PublisherStats {
		return this.#stream.stats();
	}

	async close(): Promise<void> {
		if (!this.#closed) {
			this.#closed = true;
			this.#socket.close();
			for (const rank of [...this.#replays.keys()]) this.#cancel(rank);
			this.#stream.clear();
		}
		await Promise.all([this.#receiving, ...this.#loops]);
	}

	async #receive(): Promise<void> {
		try {
			for await (const frames of this.#socket) {
				if (this.#closed) return;
				this.#feed(frames);
			}
		} catch (error) {
			if (this.#closed) return;
			const { logger } = this.#parts;
			logger.error(
				{ publisher: this.endpoint, error },
				"the subscription to KV events ended",
			);
		}
	}

	/** A full map, or a defect, costs the batch at hand and not the subscription. */
	#feed(frames: readonly Uint8Array[]): void {
		try {
			this.#stream.live(frames);
		} catch (error) {
			if (this.#failed) return;
			this.#failed = true;
			this.#parts.logger.error(
				{ publisher: this.endpoint, error },
				"a batch of KV events could not be applied (logged once)",
			);
		}
	}

	/** A socket per replay: a late answer to an earlier one cannot be taken for an answer to this one. */
	#replay(rank: number | undefined, seq: number): void {
		const { replayEndpoint } = this.#publisher;
		if (this.#closed || replayEndpoint === undefined) return;
		const { limits } = this.#parts;
		const socket = new this.#zeromq.Dealer({
			linger: 0,
			receiveTimeout: limits.replayTimeoutMs,
			sendTimeout: limits.replayTimeoutMs,
			maxMessageSize: limits.maxPayloadBytes,
		});
		this.#replays.set(rank, socket);
		const loop = this.#ask(socket, replayEndpoint, rank, seq).then(() => {
			this.#loops.delete(loop);
			if (!socket.closed) socket.close();
			// A cancelled replay has no say any more, and another one may be under way.
			if (this.#replays.get(rank) !== socket) return;
			this.#replays.delete(rank);
			this.#stream.replayEnded(rank);
		});
		this.#loops.add(loop);
	}

	#cancel(rank: number | undefined): void {
		const socket = this.#replays.get(rank);
		this.#replays.delete(rank);
		if (socket !== undefined && !socket.closed) socket.close();
	}

	/** Asks and passes the answers on until the end, a silence, the deadline, or the socket's close. */
	async #ask(
		socket: Dealer,
		endpoint: string,
		rank: number | undefined,
		seq: number,
	): Promise<void> {
		const { limits, logger } = this.#parts;
		const start = performance.now();
		const from = Buffer.alloc(8);
		from.writeBigUInt64BE(BigInt(seq));
		try {
			socket.connect(endpoint);
			await socket.send([Buffer.alloc(0), from]);
			while (performance.now() - start < limits.replayDeadlineMs) {
				const frames = await socket.receive();
				if (this.#replays.get(rank) !== socket) return;
				if (this.#stream.replayed(rank, frames)) return;
			}
		} catch (error) {
			if (this.#replays.get(rank) !== socket) return;
			logger.debug(
				{ publisher: this.endpoint, rank, seq, error },
				"replay of KV events ended early",
			);
		}
	}
}
