/** Keeps a socket connected to a publisher, wherever its host name leads. */
import type { Clock, Timer } from "kvcr-core";
import type { Subscriber } from "zeromq";
import { Names, type Place } from "./names.js";

export interface PublisherConnectionOptions {
	readonly socket: Pick<Subscriber, "connect" | "disconnect" | "ipv6">;
	readonly endpoint: string;
	readonly names: Names;
	readonly clock: Clock;
	/** Told when the name leads elsewhere now: what answers there may be another publisher. Must not throw. */
	readonly moved: () => void;
	/** Told each time a name leads nowhere and the socket has no place yet. It is tried again. Must not throw. */
	readonly unknown: (error: unknown) => void;
}

/** A name whose connection is broken is looked up again this long after the last time, in milliseconds. */
const STALE_MS = 5_000;

/** Time between attempts for a name that leads nowhere, in milliseconds. */
const RETRY_MS = 1_000;

/** See the comment at the top of this file. */
export class PublisherConnection {
	readonly #options: PublisherConnectionOptions;
	readonly #named: boolean;
	#place: Place | undefined;
	#looking = false;
	#askedAt = Number.NEGATIVE_INFINITY;
	#retry: Timer | undefined;
	#closed = false;

	/**
	 * Connects, at once or as soon as the name is known.
	 * @throws what zeromq throws for an endpoint it cannot use.
	 */
	constructor(options: PublisherConnectionOptions) {
		this.#options = options;
		const fixed = Names.fixed(options.endpoint);
		this.#named = fixed === undefined;
		if (fixed !== undefined) this.#connect(fixed);
		else void this.#look();
	}

	/** The connection broke, or could not be made: its name may lead elsewhere by now. */
	broken(): void {
		if (this.#closed || !this.#named || this.#looking) return;
		if (this.#retry !== undefined) return;
		if (this.#options.clock.now() < this.#askedAt + STALE_MS) return;
		void this.#look();
	}

	/**
	 * Makes a connection anew that ZeroMQ has given up.
	 * @throws what zeromq throws.
	 */
	renew(): void {
		const place = this.#place;
		if (place === undefined || this.#closed) return;
		this.#disconnect(place);
		this.#connect(place);
	}

	/** Must be called before the socket is closed. */
	close(): void {
		this.#closed = true;
		this.#retry?.cancel();
	}

	/** Never rejects. */
	async #look(): Promise<void> {
		const { names, endpoint, clock, moved, unknown } = this.#options;
		this.#looking = true;
		this.#askedAt = clock.now();
		try {
			const place = await names.find(endpoint);
			this.#looking = false;
			const former = this.#place;
			if (this.#closed || place.endpoint === former?.endpoint) return;
			this.#connect(place);
			if (former === undefined) return;
			this.#disconnect(former);
			moved();
		} catch (error) {
			this.#looking = false;
			// A place that was good before may be so again; without one there is no other chance.
			if (this.#closed || this.#place !== undefined) return;
			this.#retry = clock.schedule(RETRY_MS, () => {
				this.#retry = undefined;
				void this.#look();
			});
			unknown(error);
		}
	}

	#connect(place: Place): void {
		const { socket } = this.#options;
		if (socket.ipv6 !== place.ipv6) socket.ipv6 = place.ipv6;
		socket.connect(place.endpoint);
		this.#place = place;
	}

	#disconnect({ endpoint }: Place): void {
		try {
			this.#options.socket.disconnect(endpoint);
		} catch {
			// ZeroMQ has forgotten the endpoint already.
		}
	}
}
