/** Where the sockets of a channel live. libzmq allows a context 1,023 of them, and has one context for the whole process. */
import { Context } from "zeromq";

/** Peers a channel has at most by default: half of what the process has sockets for. */
export const DEFAULT_MAX_PEERS = 512;

/** Sockets of a channel that lead to no peer, and those to peers dropped a moment ago. */
const SPARE_SOCKETS = 512;

/** The most libzmq allows. */
const MOST_SOCKETS = 65_535;

/**
 * A context for one channel, where that of the process will not do: there is one set of allowed keys in a context, and more
 * peers than by default would leave no sockets to others. It costs two threads.
 */
export function contextFor(
	maxPeers: number,
	checksKeys: boolean,
): Context | undefined {
	if (maxPeers <= DEFAULT_MAX_PEERS && !checksKeys) return undefined;
	return new Context({
		blocky: false,
		maxSockets: Math.min(maxPeers + SPARE_SOCKETS, MOST_SOCKETS),
	});
}

/** Whether a socket was refused because there are too many, or too many open files. */
export function isNoSocket(error: unknown): boolean {
	const { code } = Object(error) as { code?: unknown };
	return code === "EMFILE" || code === "ENFILE" || code === "ENOMEM";
}
