/**
 * Where publishers are. libzmq looks a host name up in its only I/O thread, again at every attempt to connect, and every
 * socket of the process waits meanwhile, those of the control channel too; so names are looked up here, and it gets addresses
 * only.
 */
import { lookup as systemLookup } from "node:dns/promises";
import { isIP, isIPv6 } from "node:net";
import { ClosedError } from "kvcr-core";
import { ConnectFailedError } from "./errors.js";

/** Finds the numeric address of a host name; rejects when there is none. */
export type Lookup = (host: string) => Promise<string>;

/** An endpoint libzmq can connect to without a look-up. */
export interface Place {
	readonly endpoint: string;
	readonly ipv6: boolean;
}

/** Look-ups at the same time: slow ones must leave threads of Node's pool to others. */
const AT_ONCE = 2;

/** An endpoint with a host: what comes before it (a source address may), the host, and the port. */
const WITH_HOST = /^(tcp:\/\/(?:[^;]*;)?)(?:\[([^\]]+)\]|([^;]+)):(\d+)$/;

/** Asks the system, for an IPv4 address first: that is what most publishers listen on. */
async function lookupAddress(host: string): Promise<string> {
	try {
		return (await systemLookup(host, { family: 4 })).address;
	} catch (error) {
		const other = await systemLookup(host, { family: 6 }).catch(() => {
			throw error;
		});
		return other.address;
	}
}

/** Look-ups of one subscription: a few at a time, and one per host. */
export class Names {
	readonly #lookup: Lookup;
	/** The last address of each host. */
	readonly #known = new Map<string, string>();
	readonly #asked = new Map<string, Promise<string>>();
	readonly #waiting: (() => void)[] = [];
	#running = 0;
	#closed = false;

	/** @param lookup @default asks the system */
	constructor(lookup: Lookup = lookupAddress) {
		this.#lookup = lookup;
	}

	/** Where an endpoint without host name is, without a look-up; `undefined` for one with a name. */
	static fixed(endpoint: string): Place | undefined {
		const host = hostOf(endpoint);
		if (host === undefined) return { endpoint, ipv6: false };
		// A zone may follow an IPv6 address.
		const version = isIP(host.replace(/%.*$/, ""));
		return version === 0 ? undefined : { endpoint, ipv6: version === 6 };
	}

	/** Where an endpoint is, or was when it was last looked up. */
	last(endpoint: string): Place | undefined {
		const address = this.#known.get(hostOf(endpoint) ?? "");
		if (address !== undefined) return placeAt(endpoint, address);
		return Names.fixed(endpoint);
	}

	/**
	 * Looks an endpoint up.
	 * @throws ConnectFailedError (as rejection) when its host has no address now; ClosedError.
	 */
	async find(endpoint: string): Promise<Place> {
		const fixed = Names.fixed(endpoint);
		if (fixed !== undefined) return fixed;
		const host = hostOf(endpoint) as string;
		let asked = this.#asked.get(host);
		if (asked === undefined) {
			asked = this.#ask(host).finally(() => this.#asked.delete(host));
			this.#asked.set(host, asked);
		}
		let address: string;
		try {
			address = await asked;
		} catch (cause) {
			throw new ConnectFailedError("KvEventSubscriber", endpoint, cause);
		}
		return placeAt(endpoint, address);
	}

	/** Look-ups that have not begun never do. */
	close(): void {
		this.#closed = true;
	}

	async #ask(host: string): Promise<string> {
		if (this.#running >= AT_ONCE)
			await new Promise<void>((resolve) => this.#waiting.push(resolve));
		else this.#running += 1;
		try {
			if (this.#closed)
				throw new ClosedError("KvEventSubscriber", "the subscriber");
			const address = await this.#lookup(host);
			if (isIP(address) === 0)
				throw new TypeError(`the look-up of ${host} brought no address`);
			this.#known.set(host, address);
			return address;
		} finally {
			const next = this.#waiting.shift();
			if (next === undefined) this.#running -= 1;
			else next();
		}
	}
}

/** The host of an endpoint, as it is spelled but without brackets; none where the transport knows no hosts. */
function hostOf(endpoint: string): string | undefined {
	const match = WITH_HOST.exec(endpoint);
	return match?.[2] ?? match?.[3];
}

function placeAt(endpoint: string, address: string): Place {
	const ipv6 = isIPv6(address);
	const host = ipv6 ? `[${address}]` : address;
	return { endpoint: endpoint.replace(WITH_HOST, `$1${host}:$4`), ipv6 };
}
