/** The door of a portable agent: accepts connections, admits those that know the token, bounds their number. */
import { timingSafeEqual } from "node:crypto";
import { type AddressInfo, createServer, type Server } from "node:net";
import type { Clock } from "../ports/clock.js";
import { TransferAgentError } from "../ports/errors.js";
import { InboundConnection, type InboundHost } from "./inbound.js";
import type { RegionLookup } from "./landing.js";
import type { RegionMemory } from "./region-memory.js";
import { type Session, Sessions } from "./sessions.js";

/** Connections that have not shown the token yet; the oldest is ended for a new one. */
const MAX_ANONYMOUS = 64;

/** Settings of a {@link Listener}. */
export interface ListenerOptions {
	readonly host: string;
	readonly port: number;
	readonly token: Uint8Array;
	readonly clock: Clock;
	/** Time a peer has for its hello, in milliseconds. */
	readonly greetingMs: number;
	/** Peers connected at the same time. */
	readonly maxPeers: number;
	readonly region: RegionLookup;
	readonly notified: (from: string, payload: Uint8Array) => boolean;
}

/** Accepts the connections of writers. */
export class Listener implements InboundHost {
	readonly region: RegionLookup;
	readonly notified: (from: string, payload: Uint8Array) => boolean;
	readonly #options: ListenerOptions;
	readonly #server: Server;
	readonly #connections = new Set<InboundConnection>();
	readonly #sessions: Sessions;

	constructor(options: ListenerOptions) {
		this.#options = options;
		this.#sessions = new Sessions(options.maxPeers);
		this.region = options.region;
		this.notified = options.notified;
		this.#server = createServer({ pauseOnConnect: true }, (socket) => {
			this.#connections.add(
				new InboundConnection(socket, this, options.clock, options.greetingMs),
			);
			this.#trim();
		});
	}

	/**
	 * Begins to listen; resolves to the port.
	 * @throws TransferAgentError when the address cannot be bound.
	 */
	start(operation: string): Promise<number> {
		const { host, port } = this.#options;
		return new Promise((resolve, reject) => {
			const failed = (cause: Error) =>
				reject(
					new TransferAgentError(
						operation,
						`cannot listen on ${host} port ${port}: ${cause.message}`,
						{ cause },
					),
				);
			this.#server.once("error", failed);
			this.#server.listen({ host, port }, () => {
				this.#server.off("error", failed);
				// A failed accept (say, no descriptors left) costs that connection, not the agent.
				this.#server.on("error", () => {});
				resolve((this.#server.address() as AddressInfo).port);
			});
		});
	}

	/** For connections. */
	admit(
		token: Uint8Array,
		linkId: string,
		connection: InboundConnection,
	): Session | "unknownToken" | "busy" {
		if (!timingSafeEqual(token, this.#options.token)) return "unknownToken";
		// Before the count: a link that comes back takes the place of its former connection.
		this.#sessions.endConnectionOf(linkId);
		let known = 0;
		for (const other of this.#connections)
			if (other.live && !other.anonymous) known += 1;
		if (known >= this.#options.maxPeers) return "busy";
		return this.#sessions.open(linkId, connection);
	}

	/** For connections. */
	ended(connection: InboundConnection): void {
		this.#connections.delete(connection);
	}

	/** Tells every connection that a region ended. */
	regionEnded(region: RegionMemory, moved: readonly ArrayBuffer[]): void {
		for (const connection of this.#connections)
			connection.regionEnded(region, moved);
	}

	/** Ends every connection and stops listening; resolves when the system has let go of all of them. */
	async close(): Promise<void> {
		const closed = [...this.#connections].map((connection) => {
			connection.end();
			return connection.closed;
		});
		const server = new Promise<void>((resolve) =>
			this.#server.close(() => resolve()),
		);
		await Promise.all([server, ...closed]);
	}

	#trim(): void {
		let anonymous = 0;
		for (const connection of this.#connections)
			if (connection.live && connection.anonymous) anonymous += 1;
		if (anonymous <= MAX_ANONYMOUS) return;
		for (const connection of this.#connections)
			if (connection.live && connection.anonymous) {
				connection.end();
				return;
			}
	}
}
