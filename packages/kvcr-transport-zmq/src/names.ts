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

/** Look-ups at the same time. */
const AT_ONCE = 2;

/** Time after which a look-up no longer counts as one of those, in milliseconds; its answer is still of use. */
const SLOW_MS = 2_000;

/**
 * Look-ups under way, slow ones included. Each of the system's holds one of the four threads that Node has for them, for files
 * and more, so one thread is left to others; and it always ends. What else there is may never answer, so it is given up.
 */
const LIMITS = {
	system: { running: 3, giveUpMs: undefined },
	callers: { running: 8, giveUpMs: 10_000 },
} as const;

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

/** A name somebody waits for. */
interface Request {
	readonly host: string;
	/** Told the address; undefined when there is none now. */
	readonly answer: (address: string | undefined) => void;
}

/**
 * Look-ups of one channel, a few at a time. Names never asked about come first: those that lead nowhere are asked about over and
 * over, and are the slow ones.
 */
export class Names {
	readonly #lookup: Lookup;
	readonly #clock: Clock;
	readonly #limits: (typeof LIMITS)[keyof typeof LIMITS];
	/** Look-ups that are not slow yet. */
	#quick = 0;
	#running = 0;
	readonly #fresh = new Set<Request>();
	readonly #again = new Set<Request>();
	readonly #timers = new Set<Timer>();
	#closed = false;

	constructor(lookup: Lookup, clock: Clock) {
		this.#lookup = lookup;
		this.#clock = clock;
		this.#limits = lookup === lookupAddress ? LIMITS.system : LIMITS.callers;
	}

	/** Asks for the address of a host. Returns the way to say that the answer is not wanted any more. */
	ask(
		host: string,
		before: boolean,
		answer: (address: string | undefined) => void,
	): () => void {
		if (this.#limits === LIMITS.system && host.toLowerCase() === "localhost") {
			answer("127.0.0.1");
			return () => {};
		}
		const request: Request = { host, answer };
		const waiting = before ? this.#again : this.#fresh;
		waiting.add(request);
		this.#next();
		return () => waiting.delete(request);
	}

	/** Nobody wants an answer any more. */
	close(): void {
		this.#closed = true;
		this.#fresh.clear();
		this.#again.clear();
		for (const timer of this.#timers) timer.cancel();
		this.#timers.clear();
	}

	/** Begins what may begin now. */
	#next(): void {
		while (
			!this.#closed &&
			this.#quick < AT_ONCE &&
			this.#running < this.#limits.running
		) {
			// The last place is for a name that was never asked about.
			const mayRepeat = this.#running < this.#limits.running - 1;
			const from =
				this.#fresh.size > 0 || !mayRepeat ? this.#fresh : this.#again;
			const [request] = from;
			if (request === undefined) return;
			from.delete(request);
			this.#begin(request);
		}
	}

	#begin({ host, answer }: Request): void {
		this.#quick += 1;
		this.#running += 1;
		const notQuick = once(() => {
			this.#quick -= 1;
		});
		const slow = this.#after(SLOW_MS, () => {
			notQuick();
			this.#next();
		});
		const end = once((address: string | undefined) => {
			this.#cancel(slow);
			this.#cancel(givenUp);
			notQuick();
			this.#running -= 1;
			if (this.#closed) return;
			answer(address);
			this.#next();
		});
		const { giveUpMs } = this.#limits;
		const givenUp = giveUpMs && this.#after(giveUpMs, () => end(undefined));
		void this.#find(host).then(end);
	}

	async #find(host: string): Promise<string | undefined> {
		try {
			const address = await this.#lookup(host);
			return isAddress(address) ? address : undefined;
		} catch {
			return undefined;
		}
	}

	#after(ms: number, run: () => void): Timer {
		const timer = this.#clock.schedule(ms, () => {
			this.#timers.delete(timer);
			run();
		});
		this.#timers.add(timer);
		return timer;
	}

	#cancel(timer: Timer | undefined): void {
		if (timer === undefined) return;
		timer.cancel();
		this.#timers.delete(timer);
	}
}

/** A function that does something the first time only. */
function once<T extends unknown[]>(
	run: (...args: T) => void,
): (...args: T) => void {
	let done = false;
	return (...args) => {
		if (done) return;
		done = true;
		run(...args);
	};
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
	/** Set while an answer is waited for. */
	#unwanted: (() => void) | undefined;
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
		this.#look();
	}

	close(): void {
		this.#closed = true;
		this.#retry?.cancel();
		this.#retry = undefined;
		this.#unwanted?.();
		this.#arrived?.();
	}

	#look(): void {
		const before = this.#askedAt !== Number.NEGATIVE_INFINITY;
		this.#looking = true;
		this.#askedAt = this.#clock.now();
		// An answer may come at once.
		const unwanted = this.#names.ask(this.#target.host, before, (address) =>
			this.#answered(address),
		);
		if (this.#closed) unwanted();
		else if (this.#looking) this.#unwanted = unwanted;
	}

	#answered(address: string | undefined): void {
		this.#looking = false;
		this.#unwanted = undefined;
		if (this.#closed) return;
		const connected = address !== undefined && this.#connect(address);
		// An address that was good before may be so again; without one there is no other chance.
		if (connected || this.#address !== undefined) return;
		this.#retry = this.#clock.schedule(RETRY_MS, () => {
			this.#retry = undefined;
			this.#look();
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
