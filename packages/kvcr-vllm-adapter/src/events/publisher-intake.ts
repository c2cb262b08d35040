/** The sockets of one publisher. Owns them; `close` ends every loop. */
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread } from "node:worker_threads";
import { type Clock, type Logger, systemClock, type Timer } from "kvcr-core";
import type { Subscriber } from "zeromq";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import type { IntegerHashesError } from "./decode.js";
import { ConnectFailedError } from "./errors.js";
import { frameBound } from "./frame-bound.js";
import type { Names } from "./names.js";
import { PublisherConnection } from "./publisher-connection.js";
import { type PublisherStats, PublisherStream } from "./publisher-stream.js";
import { ReplaySockets } from "./replay-sockets.js";
import type { Sweeper } from "./sweeper.js";

/** The package zeromq, which is loaded only when somebody subscribes. */
export type Zeromq = typeof import("zeromq");

/** Where a publisher is found. */
export interface PublisherAddress {
	readonly endpoint: string;
	readonly replayEndpoint?: string;
	readonly topic?: string;
}

/** What all publishers of a subscription share. */
export interface IntakeParts {
	readonly map: ReverseHashMap;
	readonly sweeper: Sweeper;
	readonly names: Names;
	readonly limits: {
		readonly maxPayloadBytes: number;
		readonly maxWaiting: number;
		readonly maxWaitingBytes: number;
		readonly replayTimeoutMs: number;
		readonly replayDeadlineMs: number;
		readonly receiveHighWaterMark: number;
	};
	/** Must not throw. */
	readonly logger: Logger;
	readonly onError: (error: IntegerHashesError) => void;
	/** @default the system's */
	readonly clock?: Clock;
}

/**
 * Time after which a broken connection that nobody tries to make again counts as given up, in milliseconds. ZeroMQ
 * announces the next try at once when it makes one.
 */
const GIVEN_UP_MS = 1000;

/** Time a closed socket and the observer of its connection take to settle what they were waiting for, in milliseconds. */
const SETTLE_MS = 100;

/** See the comment at the top of this file. */
export class PublisherIntake {
	readonly endpoint: string;
	readonly #logger: Logger;
	readonly #stream: PublisherStream;
	readonly #socket: Subscriber;
	readonly #connection: PublisherConnection;
	readonly #replays: ReplaySockets;
	readonly #receiving: Promise<void>;
	readonly #clock: Clock;
	/** Runs while the connection is broken and no further try was announced. */
	#givenUp: Timer | undefined;
	#closed = false;
	#failed = false;
	#nameless = false;

	/** Connects. Nothing stays open when it throws. */
	constructor(zeromq: Zeromq, publisher: PublisherAddress, parts: IntakeParts) {
		const { limits } = parts;
		this.endpoint = publisher.endpoint;
		this.#logger = parts.logger;
		this.#clock = parts.clock ?? systemClock;
		this.#replays = new ReplaySockets({
			zeromq,
			endpoint: publisher.replayEndpoint,
			names: parts.names,
			limits,
			ready: () => this.#ready(),
			answer: (rank, frames) => this.#stream.replayed(rank, frames),
			ended: (rank) => this.#guard(() => this.#stream.replayEnded(rank)),
			failed: (fields) =>
				this.#log("debug", fields, "replay of KV events ended early"),
		});
		this.#stream = new PublisherStream({
			...parts,
			...limits,
			name: publisher.endpoint,
			canReplay: publisher.replayEndpoint !== undefined,
			replays: this.#replays,
		});
		this.#socket = new zeromq.Subscriber({
			linger: 0,
			receiveHighWaterMark: limits.receiveHighWaterMark,
			maxMessageSize: frameBound(limits.maxPayloadBytes),
		});
		try {
			this.#watch();
			this.#connection = new PublisherConnection({
				socket: this.#socket,
				endpoint: publisher.endpoint,
				names: parts.names,
				clock: this.#clock,
				moved: () => this.#guard(() => this.#stream.interrupted()),
				unknown: (error) => this.#unknown(error),
			});
			this.#socket.subscribe(publisher.topic ?? "");
		} catch (error) {
			this.#socket.close();
			throw new ConnectFailedError(
				"KvEventSubscriber.start",
				publisher.endpoint,
				error,
			);
		}
		this.#receiving = this.#receive();
	}

	stats(): PublisherStats {
		return this.#stream.stats();
	}

	async close(): Promise<void> {
		const ended = this.#replays.close();
		if (!this.#closed) {
			this.#closed = true;
			this.#givenUp?.cancel();
			this.#connection.close();
			this.#socket.close();
			this.#stream.close();
		}
		await Promise.all([this.#receiving, ended]);
		// A thread that ended before that would take the whole process with it.
		if (!isMainThread) await sleep(SETTLE_MS);
	}

	/** Follows the connection, which ZeroMQ makes again after a failure of the network but not after a refused frame. */
	#watch(): void {
		const { events } = this.#socket;
		events.on("disconnect", () => {
			if (this.#closed) return;
			this.#guard(() => this.#stream.interrupted());
			this.#expectRetry();
			this.#connection.broken();
		});
		events.on("connect:retry", () => this.#connection.broken());
		for (const sign of ["connect:retry", "connect:delay", "connect"] as const)
			events.on(sign, () => this.#givenUp?.cancel());
	}

	#expectRetry(): void {
		this.#givenUp?.cancel();
		this.#givenUp = this.#clock.schedule(GIVEN_UP_MS, () => this.#reconnect());
	}

	#reconnect(): void {
		if (this.#closed) return;
		this.#guard(() => this.#stream.connectionGivenUp());
		// Whoever was told of it may have closed.
		if (this.#closed) return;
		try {
			this.#connection.renew();
		} catch (error) {
			this.#log("error", { error }, "a publisher of KV events is out of reach");
			this.#expectRetry();
		}
	}

	#unknown(error: unknown): void {
		if (this.#nameless) return;
		this.#nameless = true;
		const message =
			"the host of a publisher of KV events is not known; it is looked up again (logged once)";
		this.#log("warn", { error }, message);
	}

	async #receive(): Promise<void> {
		try {
			for await (const frames of this.#socket) {
				if (this.#closed) return;
				this.#guard(() => this.#stream.live(frames));
				await this.#ready();
				if (this.#closed) return;
			}
		} catch (error) {
			if (this.#closed) return;
			// Nothing keeps what it reported up to date any more.
			this.#stream.close();
			this.#log("error", { error }, "the subscription to KV events ended");
		}
	}

	/** Until more messages can be taken in. A pending receive keeps the process alive, and so does this. */
	async #ready(): Promise<void> {
		let free = this.#stream.whenFree();
		if (free === undefined) return;
		const alive = setInterval(() => {}, 60_000);
		try {
			for (; free !== undefined; free = this.#stream.whenFree()) await free;
		} finally {
			clearInterval(alive);
		}
	}

	/** A defect costs the batch at hand and not the subscription. */
	#guard(feed: () => void): void {
		try {
			feed();
		} catch (error) {
			if (this.#failed) return;
			this.#failed = true;
			const message = "a batch of KV events could not be applied (logged once)";
			this.#log("error", { error }, message);
		}
	}

	#log(
		level: "debug" | "warn" | "error",
		fields: object,
		message: string,
	): void {
		this.#logger[level]({ publisher: this.endpoint, ...fields }, message);
	}
}
