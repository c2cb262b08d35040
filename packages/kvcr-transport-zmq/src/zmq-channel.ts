/** The control channel over ZeroMQ: one PULL socket to receive, one PUSH socket for each peer sent to. */
import { isIPv6 } from "node:net";
import { setTimeout } from "node:timers/promises";
import { isMainThread } from "node:worker_threads";
import {
	AlreadyStartedError,
	ClosedError,
	type ControlChannel,
	type ControlChannelStats,
	type ControlReceiver,
	callOut,
	InvalidArgumentError,
	InvalidEndpointError,
	MAX_CONTROL_MESSAGE_BYTES,
} from "kvcr-core";
import { type Context, Pull } from "zeromq";
import { contextFor, isNoSocket } from "./context.js";
import { KeyGate, serverKeyOf, ZAP_DOMAIN } from "./curve.js";
import { formatEndpoint, isAddress, parseEndpoint } from "./endpoint.js";
import * as closeAtExit from "./exit.js";
import { lookupAddress, Names } from "./names.js";
import {
	settingsOf,
	type ZmqControlChannelOptions,
	type ZmqSettings,
} from "./options.js";
import { Pace } from "./pace.js";
import { PeerSender } from "./peer-sender.js";
import { Peers } from "./peers.js";
import { PortWatch } from "./port-watch.js";

/** Messages of one peer that libzmq holds before it stops reading from that peer. */
const NATIVE_QUEUE = 64;

/** Bytes by which an encrypted message may be longer than its content. */
const CURVE_OVERHEAD = 64;

type ChannelState = "new" | "starting" | "started" | "closed";

/**
 * A {@link ControlChannel} over ZeroMQ PUSH/PULL with endpoints `tcp://host:port`. Keeps the process alive from `start` to
 * `close`. Host names of peers are looked up here (see `lookup`), never by libzmq. In a worker thread, close it before `worker.terminate()`: the binding
 * aborts the process when a thread with an open socket is terminated.
 */
export class ZmqControlChannel implements ControlChannel {
	readonly #settings: ZmqSettings;
	readonly #peers: Peers;
	readonly #gate: KeyGate | undefined;
	/** Missing: that of the process. */
	readonly #context: Context | undefined;
	readonly #pace = new Pace(() => performance.now());
	readonly #refused: Record<string, number> = {};
	readonly #dropped: Record<string, number> = {};
	#state: ChannelState = "new";
	#endpoints: readonly string[] = [];
	#pull: Pull | undefined;
	/** Set while `close` waits for the port. */
	#portWatch: PortWatch | undefined;
	readonly #names: Names;
	#sent = 0;
	#received = 0;
	#closing: Promise<void> | undefined;
	/** The process, or the worker thread, exits: lets go of all sockets at once. */
	readonly #abandon = () => {
		this.#state = "closed";
		this.#closePull();
		this.#portWatch?.close();
		this.#peers.abandon();
		this.#names.close();
		this.#gate?.close();
	};

	/** @throws InvalidArgumentError; InvalidEndpointError when it would advertise a wildcard. */
	constructor(options: ZmqControlChannelOptions = {}) {
		this.#settings = settingsOf(options);
		const { maxPeers, peerIdleMs, clock, curve, lookup } = this.#settings;
		this.#peers = new Peers(maxPeers, peerIdleMs, clock);
		this.#names = new Names(lookup, clock);
		this.#context = contextFor(maxPeers, curve !== undefined);
		this.#gate =
			curve === undefined || this.#context === undefined
				? undefined
				: new KeyGate(curve.allow, this.#context);
	}

	get endpoint(): string | undefined {
		return this.#endpoints[0];
	}

	/**
	 * True when peers are told the very address that is bound: only one process can listen there at a time. An address that
	 * something in between translates may lead elsewhere tomorrow.
	 */
	get exclusiveEndpoint(): boolean {
		const { host, port, advertised } = this.#settings;
		return advertised.every(
			(endpoint) =>
				endpoint.host === host &&
				(endpoint.port === 0 || endpoint.port === port),
		);
	}

	/** Every endpoint under which peers know this channel; empty before `start`. */
	get endpoints(): readonly string[] {
		return this.#endpoints;
	}

	/** Peers connected to at the moment. */
	get peerCount(): number {
		return this.#peers.size;
	}

	async start(receive: ControlReceiver): Promise<void> {
		const operation = "ZmqControlChannel.start";
		this.#assertOpen(operation);
		if (this.#state !== "new")
			throw new AlreadyStartedError(operation, "the channel");
		if (typeof receive !== "function")
			throw new InvalidArgumentError(
				operation,
				"receive",
				receive,
				"a function",
			);
		this.#state = "starting";
		const { host, port, advertised } = this.#settings;
		closeAtExit.add(this.#abandon);
		const address = await bindAddress(operation, host);
		this.#assertOpen(operation);
		try {
			await this.#gate?.start();
		} catch (error) {
			this.#assertOpen(operation);
			throw error;
		}
		// A socket made from here on would be closed by nobody.
		this.#assertOpen(operation);
		const pull = this.#makePull(address);
		this.#pull = pull;
		try {
			await pull.bind(formatBind(address, port));
		} catch (error) {
			this.#pull = undefined;
			pull.close();
			this.#assertOpen(operation);
			throw new InvalidEndpointError(
				operation,
				formatEndpoint({ host, port }),
				`an address this host can listen on (${(error as Error).message})`,
			);
		}
		this.#assertOpen(operation);
		const { lastEndpoint } = pull;
		const bound = Number(/:(\d+)$/.exec(lastEndpoint ?? "")?.[1] ?? port);
		this.#endpoints = advertised.map((endpoint) =>
			formatEndpoint({ host: endpoint.host, port: endpoint.port || bound }),
		);
		this.#state = "started";
		void this.#receiveAll(pull, receive);
	}

	send(endpoint: string, message: Uint8Array): boolean {
		if (this.#state !== "started") return this.#refuse("closed");
		if (!(message instanceof Uint8Array)) return this.#refuse("not_bytes");
		if (message.byteLength > MAX_CONTROL_MESSAGE_BYTES)
			return this.#refuse("too_large");
		const sender = this.#peers.find(endpoint) ?? this.#add(endpoint);
		if (typeof sender === "string") return this.#refuse(sender);
		if (!sender.send(message))
			return this.#refuse(this.#isOpen() ? "queue_full" : "closed");
		this.#sent += 1;
		return true;
	}

	/** Leaves what follows with its senders for a millisecond as soon as this was said a few times; see pace.ts. */
	slowDown(): void {
		this.#pace.excess();
	}

	stats(): ControlChannelStats {
		const turnedAway = this.#gate?.turnedAway ?? 0;
		return {
			sent: this.#sent,
			received: this.#received,
			refused: { ...this.#refused },
			dropped:
				turnedAway > 0
					? { ...this.#dropped, unknown_key: turnedAway }
					: { ...this.#dropped },
		};
	}

	close(): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	async #close(): Promise<void> {
		this.#state = "closed";
		this.#portWatch = this.#pull && new PortWatch(this.#pull);
		const portIsFree = this.#portWatch?.freed();
		this.#closePull();
		await this.#peers.close(this.#settings.closeFlushMs);
		this.#names.close();
		await portIsFree;
		this.#gate?.close();
		// A worker thread may end as soon as this resolves; see exit.ts.
		if (!isMainThread)
			await setTimeout(this.#settings.closeFlushMs + closeAtExit.HAND_BACK_MS);
		closeAtExit.remove(this.#abandon);
	}

	/** Stops receiving. A thread of libzmq frees the port soon after; see port-watch.ts. */
	#closePull(): void {
		const pull = this.#pull;
		this.#pull = undefined;
		pull?.close();
	}

	async #receiveAll(pull: Pull, receive: ControlReceiver): Promise<void> {
		const pace = this.#pace;
		pace.begin();
		try {
			for (;;) {
				const parts = await pull.receive();
				if (this.#state !== "started") return;
				const [message] = parts;
				if (message === undefined || parts.length !== 1)
					this.#drop("multipart");
				else if (message.byteLength > MAX_CONTROL_MESSAGE_BYTES)
					this.#drop("too_large");
				else this.#deliver(message, receive);
				const step = pace.next();
				if (step === "read") continue;
				if (step === "turn")
					await new Promise((resolve) => setImmediate(resolve));
				else await setTimeout(step);
				pace.begin();
			}
		} catch {
			// Only a closed socket stops receiving.
		}
	}

	#deliver(message: Uint8Array, receive: ControlReceiver): void {
		this.#received += 1;
		callOut(
			() => receive(message),
			() => this.#drop("receiver_threw"),
		);
	}

	#makePull(address: string): Pull {
		const { curve } = this.#settings;
		return new Pull({
			linger: 0,
			// Larger ones end the connection they came over, before they are read.
			maxMessageSize:
				MAX_CONTROL_MESSAGE_BYTES + (curve === undefined ? 0 : CURVE_OVERHEAD),
			receiveHighWaterMark: NATIVE_QUEUE,
			handshakeInterval: 5_000,
			tcpKeepalive: 1,
			ipv6: isIPv6(address),
			...(this.#context === undefined ? {} : { context: this.#context }),
			...(curve === undefined
				? {}
				: {
						curveServer: true,
						curveSecretKey: curve.secretKey,
						zapDomain: ZAP_DOMAIN,
					}),
		});
	}

	/** A sender to a new peer, or why there is none. The caller's code runs before anything is made that it could leave behind. */
	#add(endpoint: string): PeerSender | string {
		const target = parseEndpoint(endpoint);
		if (target === undefined) return "bad_endpoint";
		let key: string | undefined;
		const { curve } = this.#settings;
		if (curve !== undefined) {
			try {
				key = serverKeyOf(curve, endpoint);
			} catch {
				return "bad_key";
			}
			if (key === undefined) return "bad_endpoint";
			// The caller may have closed the channel, or sent to the same peer.
			if (!this.#isOpen()) return "closed";
			const sender = this.#peers.find(endpoint);
			if (sender !== undefined) return sender;
		}
		try {
			return this.#peers.add(
				endpoint,
				() =>
					new PeerSender(endpoint, target, key, {
						...this.#settings,
						names: this.#names,
						context: this.#context,
					}),
			);
		} catch (error) {
			return isNoSocket(error) ? "no_socket" : "bad_endpoint";
		}
	}

	#isOpen(): boolean {
		return this.#state === "started";
	}

	#refuse(reason: string): false {
		this.#refused[reason] = (this.#refused[reason] ?? 0) + 1;
		return false;
	}

	#drop(reason: string): void {
		this.#dropped[reason] = (this.#dropped[reason] ?? 0) + 1;
	}

	#assertOpen(operation: string): void {
		if (this.#state === "closed")
			throw new ClosedError(operation, "the channel");
	}
}

/** The numeric address to listen on: libzmq would take a name for that of a network interface. */
async function bindAddress(operation: string, host: string): Promise<string> {
	if (host === "*") return "0.0.0.0";
	if (isAddress(host)) return host;
	try {
		return await lookupAddress(host);
	} catch (error) {
		throw new InvalidEndpointError(
			operation,
			host,
			`a host this machine can listen on (${(error as Error).message})`,
		);
	}
}

function formatBind(address: string, port: number): string {
	const host = isIPv6(address) ? `[${address}]` : address;
	return `tcp://${host}:${port === 0 ? "*" : port}`;
}
