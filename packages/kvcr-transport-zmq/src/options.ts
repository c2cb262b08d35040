/** Settings of a {@link ZmqControlChannel} and their defaults. */
import {
	type Clock,
	checkObject,
	InvalidArgumentError,
	InvalidEndpointError,
	systemClock,
} from "kvcr-core";
import { isWildcardHost } from "kvcr-core/portable";
import { DEFAULT_MAX_PEERS } from "./context.js";
import { checkKey, type ZmqCurveOptions } from "./curve.js";
import {
	formatEndpoint,
	parseAdvertised,
	type TcpEndpoint,
} from "./endpoint.js";
import { type Lookup, lookupAddress } from "./names.js";

/** Settings of a `ZmqControlChannel`. */
export interface ZmqControlChannelOptions {
	/** Address to listen on; default `"127.0.0.1"`. A wildcard (`"0.0.0.0"`, `"::"`) needs `advertise`. */
	readonly host?: string;
	/** Port to listen on; default 0: any free one. */
	readonly port?: number;
	/**
	 * Endpoints that peers use, when they differ from the address listened on; the first becomes `endpoint`. A port left out
	 * or 0 stands for the one listened on. Wildcards are refused.
	 */
	readonly advertise?: string | readonly string[];
	/** Messages that may wait for one peer; default 10,000. */
	readonly maxQueuedMessages?: number;
	/** Bytes that may wait for one peer; default 16 MiB. */
	readonly maxQueuedBytes?: number;
	/**
	 * Peers that are connected to at the same time; for one more, the one idle longest is dropped. Default 512. Each peer takes
	 * a socket of libzmq, which has 1,023 for all channels of a process together; a channel with more peers than the default has
	 * sockets of its own, and two more threads. When no socket or file descriptor is left, a peer is dropped too, and what cannot be
	 * sent is counted as `stats().refused.no_socket`.
	 */
	readonly maxPeers?: number;
	/** Time after which a peer that nothing was sent to is dropped, in milliseconds; default 60,000. */
	readonly peerIdleMs?: number;
	/** Time `close` gives to what was accepted already, in milliseconds; default 50. */
	readonly closeFlushMs?: number;
	/** Encryption and mutual authentication by CURVE; default: none. */
	readonly curve?: ZmqCurveOptions;
	/**
	 * Finds the address of a peer that has a host name; a rejection means "not now". Names are looked up again while messages
	 * are sent, since peers move. Two names are looked up at a time; one that takes over 2 s makes way for the next, up to 8 are
	 * under way then, and after 10 s without an answer it is asked for again. Default: the system's, IPv4 first, with three under way
	 * at most, for each holds one of Node's four threads.
	 */
	readonly lookup?: Lookup;
	/** Clock of the timers; default: the system's. */
	readonly clock?: Clock;
}

/** Checked settings. */
export interface ZmqSettings {
	readonly host: string;
	readonly port: number;
	/** Port 0 stands for the port that will be bound. */
	readonly advertised: readonly TcpEndpoint[];
	readonly maxQueuedMessages: number;
	readonly maxQueuedBytes: number;
	readonly maxPeers: number;
	readonly peerIdleMs: number;
	readonly closeFlushMs: number;
	readonly curve: ZmqCurveOptions | undefined;
	readonly lookup: Lookup;
	readonly clock: Clock;
}

const OPERATION = "new ZmqControlChannel";

/**
 * Checks options and fills in defaults.
 * @throws InvalidArgumentError, InvalidEndpointError
 */
export function settingsOf(options: ZmqControlChannelOptions): ZmqSettings {
	checkObject(OPERATION, "options", options);
	const host = options.host ?? "127.0.0.1";
	if (typeof host !== "string" || !/^[A-Za-z0-9:._*-]{1,253}$/.test(host))
		throw new InvalidArgumentError(
			OPERATION,
			"host",
			host,
			"a host name or address (IPv6 without brackets)",
		);
	const port = integer(options, "port", 0, 0, 65_535);
	const given = options.advertise;
	let advertised: TcpEndpoint[];
	if (given === undefined) {
		if (isWildcardHost(host))
			throw new InvalidEndpointError(
				OPERATION,
				formatEndpoint({ host: host, port: port }),
				"one that peers can connect to: give `advertise` when binding to all interfaces",
			);
		advertised = [{ host: host, port: 0 }];
	} else {
		const list: unknown = typeof given === "string" ? [given] : given;
		if (!Array.isArray(list) || list.length === 0)
			throw new InvalidArgumentError(
				OPERATION,
				"advertise",
				given,
				"an endpoint, or an array of at least one",
			);
		advertised = list.map((text: unknown) =>
			parseAdvertised(OPERATION, text, isWildcardHost),
		);
	}
	const { curve } = options;
	if (curve !== undefined) checkCurve(curve);
	const lookup = options.lookup ?? lookupAddress;
	if (typeof lookup !== "function")
		throw new InvalidArgumentError(OPERATION, "lookup", lookup, "a function");
	const clock = options.clock ?? systemClock;
	if (typeof clock.now !== "function" || typeof clock.schedule !== "function")
		throw new InvalidArgumentError(
			OPERATION,
			"clock",
			clock,
			"an object with now, schedule",
		);
	return {
		host,
		port,
		advertised,
		maxQueuedMessages: integer(options, "maxQueuedMessages", 10_000, 1, 1e7),
		maxQueuedBytes: integer(
			options,
			"maxQueuedBytes",
			16 << 20,
			1 << 20,
			2 ** 40,
		),
		maxPeers: integer(options, "maxPeers", DEFAULT_MAX_PEERS, 1, 60_000),
		peerIdleMs: integer(options, "peerIdleMs", 60_000, 1, 2 ** 31 - 1),
		closeFlushMs: integer(options, "closeFlushMs", 50, 0, 10_000),
		curve,
		lookup,
		clock,
	};
}

function checkCurve(curve: ZmqCurveOptions): void {
	checkObject(OPERATION, "curve", curve);
	checkKey(OPERATION, "curve.publicKey", curve.publicKey);
	checkKey(OPERATION, "curve.secretKey", curve.secretKey);
	if (typeof curve.serverKey !== "function")
		checkKey(OPERATION, "curve.serverKey", curve.serverKey);
	if (!Array.isArray(curve.allow))
		throw new InvalidArgumentError(
			OPERATION,
			"curve.allow",
			curve.allow,
			"an array of public keys",
		);
	for (const [i, key] of (curve.allow as readonly string[]).entries())
		checkKey(OPERATION, `curve.allow[${i}]`, key);
}

function integer(
	options: ZmqControlChannelOptions,
	argument:
		| "port"
		| "maxQueuedMessages"
		| "maxQueuedBytes"
		| "maxPeers"
		| "peerIdleMs"
		| "closeFlushMs",
	fallback: number,
	least: number,
	most: number,
): number {
	const value = options[argument] ?? fallback;
	if (!Number.isInteger(value) || value < least || value > most)
		throw new InvalidArgumentError(
			OPERATION,
			argument,
			value,
			`an integer of ${least} to ${most}`,
		);
	return value;
}
