/**
 * Peers with host names. libzmq looks a name up in its only I/O thread, again at every attempt to connect, and all other peers
 * wait meanwhile; so names are looked up here, and it gets addresses only.
 */
import { lookup as systemLookup } from "node:dns/promises";
import { isIPv6 } from "node:net";
import type { Clock, Timer } from "kvcr-core";
import type { Push } from "zeromq";
import { formatEndpoint, isAddress, type TcpEndpoint } from "./endpoint.js";

/** Finds the numeric address of a host name; rejects when there is none. */
export type Lookup = (host: string) => Promise<string>;

/** Look-ups at the same time: slow ones must leave threads of Node's pool to others. */
const AT_ONCE = 2;

/** A name is looked up again when a message is sent this long after the last time, in milliseconds: peers move. */
const STALE_MS = 5_000;

/** Time between attempts for a name that leads nowhere, in milliseconds. */
const RETRY_MS = 1_000;

/** Asks the system, for an IPv4 address first: that is what most peers listen on. */
export async function lookupAddress(host: string): Promise<string> {
	try {
		return (await systemLookup(host, { family: 4 })).address;
	} catch (error) {
		const other = await systemLookup(host, { family: 6 }).catch(() => {
			throw error;
		});
		return other.address;
	}
}

/** Look-ups of one channel, a few at a time. */
export class Names {
	readonly #lookup: Lookup;
	#running = 0;
	readonly #waiting: (() => void)[] = [];

	constructor(lookup: Lookup) {
		this.#lookup = lookup;
	}

	/** The address of a host; undefined when there is none now, or nobody wants it any more when its turn comes. */
	async find(host: string, wanted: () => boolean): Promise<string | undefined> {
		if (this.#running >= AT_ONCE)
			await new Promise<void>((resolve) => this.#waiting.push(resolve));
		else this.#running += 1;
		try {
			if (!wanted()) return undefined;
			const address = await this.#lookup(host);
			return isAddress(address) ? address : undefined;
		} catch {
			return undefined;
		} finally {
			const next = this.#waiting.shift();
			if (next === undefined) this.#running -= 1;
			else next();
		}
	}
}

/** Keeps a socket connected to where a name leads. */
export class NamedConnection {
	readonly #socket: Push;
	readonly #target: TcpEndpoint;
	readonly #names: Names;
	readonly #clock: Clock;
	#address: string | undefined;
	#looking = false;
	#askedAt = Number.NEGATIVE_INFINITY;
	#retry: Timer | undefined;
	#closed = false;
	/** Set while somebody waits for the first address. */
	#arrived: (() => void) | undefined;

	constructor(socket: Push, target: TcpEndpoint, names: Names, clock: Clock) {
		this.#socket = socket;
		this.#target = target;
		this.#names = names;
		this.#clock = clock;
	}

	/** True once the socket knows where to go. */
	get connected(): boolean {
		return this.#address !== undefined;
	}

	/** Resolves when it does, or is closed. */
	whenConnected(): Promise<void> {
		if (this.connected || this.#closed) return Promise.resolve();
		return new Promise((resolve) => {
			this.#arrived = resolve;
		});
	}

	/** A message is about to be sent: the name may have to be looked up. */
	use(): void {
		const fresh = this.#clock.now() < this.#askedAt + STALE_MS;
		if (this.#looking || fresh || this.#retry !== undefined) return;
		void this.#look();
	}

	close(): void {
		this.#closed = true;
		this.#retry?.cancel();
		this.#retry = undefined;
		this.#arrived?.();
	}

	async #look(): Promise<void> {
		this.#looking = true;
		this.#askedAt = this.#clock.now();
		const address = await this.#names.find(
			this.#target.host,
			() => !this.#closed,
		);
		this.#looking = false;
		if (this.#closed) return;
		const connected = address !== undefined && this.#connect(address);
		// An address that was good before may be so again; without one there is no other chance.
		if (connected || this.#address !== undefined) return;
		this.#retry = this.#clock.schedule(RETRY_MS, () => {
			this.#retry = undefined;
			void this.#look();
		});
	}

	/** False when the socket cannot go there. */
	#connect(address: string): boolean {
		const former = this.#address;
		if (address === former) return true;
		const { port } = this.#target;
		try {
			const ipv6 = isIPv6(address);
			if (this.#socket.ipv6 !== ipv6) this.#socket.ipv6 = ipv6;
			this.#socket.connect(formatEndpoint({ host: address, port }));
			this.#address = address;
			if (former !== undefined)
				this.#socket.disconnect(formatEndpoint({ host: former, port }));
			this.#arrived?.();
			return true;
		} catch {
			return false;
		}
	}
}
