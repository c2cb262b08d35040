/**
 * Replays asked of one publisher: at most one per rank at a time, each on a socket of its own, so that a late answer to an
 * earlier one cannot be taken for an answer to this one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Dealer } from "zeromq";
import { ConnectFailedError } from "./errors.js";
import { frameBound } from "./frame-bound.js";
import type { Names, Place } from "./names.js";
import type { Zeromq } from "./publisher-intake.js";
import type { ReplayRequests } from "./publisher-stream.js";

export interface ReplayOptions {
	readonly zeromq: Zeromq;
	/** Where replays are answered; nothing is asked where there is none. */
	readonly endpoint: string | undefined;
	readonly names: Names;
	readonly limits: {
		readonly maxPayloadBytes: number;
		readonly replayTimeoutMs: number;
		readonly replayDeadlineMs: number;
	};
	/** Resolves when a further answer can be taken. Must not reject. */
	readonly ready: () => Promise<void>;
	/** Takes an answer; true when it was the last one. */
	readonly answer: (
		rank: number | undefined,
		frames: readonly Uint8Array[],
	) => boolean;
	/** Told when a replay is over, one way or another, unless it was cancelled. Must not throw. */
	readonly ended: (rank: number | undefined) => void;
	/** Told why a replay ended early. */
	readonly failed: (fields: object) => void;
}

/**
 * Least time between the starts of two replays of a rank, in milliseconds. Two publishers that are taken for one
 * contradict each other with every batch; each contradiction asks for a replay, and no number of sockets would help.
 */
const PAUSE_MS = 100;

interface Replay {
	readonly rank: number | undefined;
	readonly seq: number;
	readonly cancel: AbortController;
	socket?: Dealer;
}

/** See the comment at the top of this file. */
export class ReplaySockets implements ReplayRequests {
	readonly #options: ReplayOptions;
	/** The replay under way of each rank, and when the last one began. */
	readonly #current = new Map<number | undefined, Replay>();
	readonly #began = new Map<number | undefined, number>();
	readonly #loops = new Set<Promise<void>>();
	#closed = false;

	constructor(options: ReplayOptions) {
		this.#options = options;
	}

	request(rank: number | undefined, seq: number): void {
		if (this.#closed) return;
		this.cancel(rank);
		const replay = { rank, seq, cancel: new AbortController() };
		this.#current.set(rank, replay);
		const loop = this.#run(replay).finally(() => this.#loops.delete(loop));
		this.#loops.add(loop);
	}

	cancel(rank: number | undefined): void {
		const replay = this.#current.get(rank);
		this.#current.delete(rank);
		replay?.cancel.abort();
		close(replay?.socket);
	}

	/** Ends all replays; none has a say any more. */
	async close(): Promise<void> {
		this.#closed = true;
		for (const rank of [...this.#current.keys()]) this.cancel(rank);
		await Promise.all(this.#loops);
	}

	/** Never rejects. A socket that cannot be had is a replay that brings nothing. */
	async #run(replay: Replay): Promise<void> {
		const { rank, seq } = replay;
		try {
			await this.#pause(replay);
			await this.#ask(replay);
		} catch (error) {
			if (this.#isCurrent(replay)) this.#options.failed({ rank, seq, error });
		}
		close(replay.socket);
		if (!this.#isCurrent(replay)) return;
		this.#current.delete(rank);
		this.#options.ended(rank);
	}

	async #pause({ rank, cancel }: Replay): Promise<void> {
		const began = this.#began.get(rank) ?? Number.NEGATIVE_INFINITY;
		const wait = began + PAUSE_MS - performance.now();
		// Even without a pause a replay begins later: whoever asks for one is in the middle of a change of state.
		await sleep(Math.max(wait, 0), undefined, { signal: cancel.signal });
		this.#began.set(rank, performance.now());
	}

	/** Asks and passes the answers on until the end, a silence, the deadline, or the socket's close. */
	async #ask(replay: Replay): Promise<void> {
		const { zeromq, endpoint, limits, ready, answer } = this.#options;
		if (endpoint === undefined) return;
		const place = await this.#find(endpoint, replay);
		if (!this.#isCurrent(replay)) return;
		const socket = new zeromq.Dealer({
			linger: 0,
			receiveTimeout: limits.replayTimeoutMs,
			sendTimeout: limits.replayTimeoutMs,
			maxMessageSize: frameBound(limits.maxPayloadBytes),
		});
		replay.socket = socket;
		let start = performance.now();
		const from = Buffer.alloc(8);
		from.writeBigUInt64BE(BigInt(replay.seq));
		if (place.ipv6) socket.ipv6 = true;
		socket.connect(place.endpoint);
		await socket.send([Buffer.alloc(0), from]);
		while (performance.now() - start < limits.replayDeadlineMs) {
			const frames = await socket.receive();
			if (!this.#isCurrent(replay)) return;
			if (answer(replay.rank, frames)) return;
			const held = performance.now();
			await ready();
			if (!this.#isCurrent(replay)) return;
			// It is not the publisher that takes this time.
			start += performance.now() - held;
		}
	}

	/**
	 * Where to ask: a replay cannot wait for a slow look-up, so the place known before is good enough.
	 * @throws ConnectFailedError, as rejection, when there is none in time; AbortError when the replay is cancelled.
	 */
	async #find(endpoint: string, { cancel }: Replay): Promise<Place> {
		const { names, limits } = this.#options;
		const found = names.find(endpoint);
		found.catch(() => {});
		const last = names.last(endpoint);
		if (last !== undefined) return last;
		const over = new AbortController();
		const late = sleep(limits.replayTimeoutMs, undefined, {
			signal: AbortSignal.any([cancel.signal, over.signal]),
		}).then(() => {
			const cause = new Error("its host was not found in time");
			throw new ConnectFailedError("KvEventSubscriber", endpoint, cause);
		});
		try {
			return await Promise.race([found, late]);
		} finally {
			over.abort();
		}
	}

	#isCurrent(replay: Replay): boolean {
		return this.#current.get(replay.rank) === replay;
	}
}

function close(socket: Dealer | undefined): void {
	if (socket !== undefined && !socket.closed) socket.close();
}
