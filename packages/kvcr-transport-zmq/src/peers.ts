/** The peers a channel sends to: bounded in number, dropped when idle. */
import type { Clock, Timer } from "kvcr-core";
import { isNoSocket } from "./context.js";
import type { PeerSender } from "./peer-sender.js";

/** Time libzmq gets to send the rest for a dropped peer, in milliseconds. */
const DROP_LINGER_MS = 50;

/** Time in which the socket of a dropped peer surely comes back, in milliseconds. */
const ROOM_MS = 2 * DROP_LINGER_MS;

/** Senders by endpoint, the one used longest ago first. */
export class Peers {
	readonly #maxPeers: number;
	readonly #idleMs: number;
	readonly #clock: Clock;
	readonly #senders = new Map<string, PeerSender>();
	/** The sender used last, which is mostly the next one too. */
	#latest: PeerSender | undefined;
	#sweep: Timer | undefined;
	/** When a peer was last dropped because no socket was left. */
	#madeRoomAt = Number.NEGATIVE_INFINITY;

	constructor(maxPeers: number, idleMs: number, clock: Clock) {
		this.#maxPeers = maxPeers;
		this.#idleMs = idleMs;
		this.#clock = clock;
	}

	/** Number of peers connected to. */
	get size(): number {
		return this.#senders.size;
	}

	/** The sender of an endpoint, if there is one. It counts as used now. */
	find(endpoint: string): PeerSender | undefined {
		const sender = this.#senders.get(endpoint);
		if (sender !== undefined) this.#use(endpoint, sender);
		return sender;
	}

	/**
	 * Makes the sender of an endpoint that has none, in place of another one when there is no room.
	 * @throws what `make` throws
	 */
	add(endpoint: string, make: () => PeerSender): PeerSender {
		if (this.#senders.size >= this.#maxPeers) this.#dropOne();
		let sender: PeerSender;
		try {
			sender = make();
		} catch (error) {
			if (!isNoSocket(error) || !this.#makeRoom()) throw error;
			sender = make();
		}
		this.#use(endpoint, sender);
		return sender;
	}

	/** Gives every sender up to `flushMs` for its queue, then closes them all. */
	async close(flushMs: number): Promise<void> {
		this.#sweep?.cancel();
		const waiting = [...this.#senders.values()].filter(({ idle }) => !idle);
		if (waiting.length > 0 && flushMs > 0) {
			let timer: ReturnType<typeof setTimeout> | undefined;
			await Promise.race([
				Promise.all(waiting.map((sender) => sender.whenIdle())),
				new Promise((resolve) => {
					timer = setTimeout(resolve, flushMs);
				}),
			]);
			clearTimeout(timer);
		}
		for (const sender of this.#senders.values()) sender.close(flushMs);
		this.#senders.clear();
	}

	/** Closes every sender at once; what waits is lost. */
	abandon(): void {
		this.#sweep?.cancel();
		for (const sender of this.#senders.values()) sender.close(0);
		this.#senders.clear();
	}

	#use(endpoint: string, sender: PeerSender): void {
		if (sender !== this.#latest) {
			// A map keeps the order of insertion, so this moves the peer to the end.
			this.#senders.delete(endpoint);
			this.#senders.set(endpoint, sender);
			this.#latest = sender;
		}
		sender.lastUsed = this.#clock.now();
		this.#sweep ??= this.#clock.schedule(this.#idleMs, () => this.#dropIdle());
	}

	/** Drops a peer for its socket; false when the one of the last is still on its way back. */
	#makeRoom(): boolean {
		const now = this.#clock.now();
		if (now < this.#madeRoomAt + ROOM_MS) return false;
		this.#madeRoomAt = now;
		this.#dropOne();
		return true;
	}

	/** Drops the peer that was idle longest; when all are busy, the one used longest ago. */
	#dropOne(): void {
		let chosen: string | undefined;
		for (const [endpoint, sender] of this.#senders) {
			chosen ??= endpoint;
			if (!sender.idle) continue;
			chosen = endpoint;
			break;
		}
		if (chosen !== undefined) this.#drop(chosen);
	}

	#dropIdle(): void {
		this.#sweep = undefined;
		const oldest = this.#clock.now() - this.#idleMs;
		for (const [endpoint, sender] of this.#senders) {
			if (sender.lastUsed > oldest) {
				this.#sweep = this.#clock.schedule(sender.lastUsed - oldest, () =>
					this.#dropIdle(),
				);
				return;
			}
			this.#drop(endpoint);
		}
	}

	#drop(endpoint: string): void {
		this.#senders.get(endpoint)?.close(DROP_LINGER_MS);
		this.#senders.delete(endpoint);
	}
}
