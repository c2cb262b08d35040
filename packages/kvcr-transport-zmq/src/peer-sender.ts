/** The way to one peer: a socket, and a bounded queue in front of it. */
import { isIPv6 } from "node:net";
import type { Clock } from "kvcr-core";
import { type Context, Push, type SocketOptions } from "zeromq";
import type { ZmqCurveOptions } from "./curve.js";
import { isAddress, type TcpEndpoint } from "./endpoint.js";
import { NamedConnection, type Names } from "./names.js";

/** Messages that libzmq itself may hold for a peer; more wait in our own, countable queue. */
const NATIVE_QUEUE = 256;

/** Time between attempts to reach a peer that is away: first, and at most, in milliseconds. */
const RECONNECT_MS = { first: 20, longest: 250 } as const;

/** What a sender needs to know. */
export interface SenderSettings {
	readonly maxQueuedMessages: number;
	readonly maxQueuedBytes: number;
	/** Context of the channel's own; default: the process's. */
	readonly context: Context | undefined;
	readonly curve: ZmqCurveOptions | undefined;
	readonly names: Names;
	readonly clock: Clock;
}

/** Sends to one peer. libzmq allows one pending send per socket, so messages wait for each other here. */
export class PeerSender {
	/** Clock time of the last accepted message, in milliseconds. */
	lastUsed = 0;
	readonly #settings: SenderSettings;
	readonly #socket: Push;
	/** Set for a peer that has a name instead of an address. */
	readonly #connection: NamedConnection | undefined;
	#queue: Uint8Array[] = [];
	/** Messages of `#queue` before this one are gone. */
	#head = 0;
	#bytes = 0;
	#busy = false;
	#closed = false;
	#idle: (() => void) | undefined;

	/** @throws what zeromq throws for an address it cannot use, or when it has no socket; then nothing is left behind */
	constructor(
		endpoint: string,
		target: TcpEndpoint,
		serverKey: string | undefined,
		settings: SenderSettings,
	) {
		this.#settings = settings;
		const { curve, context } = settings;
		this.#socket = new Push(context === undefined ? {} : { context });
		try {
			// Not in the constructor: a socket that it has made stays open when it throws.
			Object.assign(this.#socket, {
				linger: 0,
				sendHighWaterMark: NATIVE_QUEUE,
				reconnectInterval: RECONNECT_MS.first,
				reconnectMaxInterval: RECONNECT_MS.longest,
				tcpKeepalive: 1,
				ipv6: isIPv6(target.host),
				...(curve === undefined || serverKey === undefined
					? {}
					: {
							curveServerKey: serverKey,
							curvePublicKey: curve.publicKey,
							curveSecretKey: curve.secretKey,
						}),
			} satisfies SocketOptions<Push>);
			if (isAddress(target.host)) this.#socket.connect(endpoint);
			else
				this.#connection = new NamedConnection(
					this.#socket,
					target,
					settings.names,
					settings.clock,
				);
		} catch (error) {
			this.#socket.close();
			throw error;
		}
	}

	/** True when nothing waits in our own queue. */
	get idle(): boolean {
		return !this.#busy;
	}

	/** Sends or queues one message. False when the queue is full. */
	send(message: Uint8Array): boolean {
		if (this.#closed) return false;
		this.#connection?.use();
		// A look-up is the caller's code, which may have closed the channel.
		if (this.#isClosed()) return false;
		if (!this.#busy) {
			this.#busy = true;
			void this.#drain(message);
			return true;
		}
		const { maxQueuedMessages, maxQueuedBytes } = this.#settings;
		if (
			this.#queue.length - this.#head >= maxQueuedMessages ||
			this.#bytes + message.byteLength > maxQueuedBytes
		)
			return false;
		this.#queue.push(message);
		this.#bytes += message.byteLength;
		return true;
	}

	#isClosed(): boolean {
		return this.#closed;
	}

	/** Resolves when our own queue is empty. */
	whenIdle(): Promise<void> {
		if (!this.#busy) return Promise.resolve();
		return new Promise((resolve) => {
			this.#idle = resolve;
		});
	}

	/** Closes the socket. What libzmq still holds may go out for `lingerMs`, in the background. */
	close(lingerMs: number): void {
		if (this.#closed) return;
		this.#closed = true;
		this.#connection?.close();
		this.#queue = [];
		this.#head = 0;
		this.#socket.linger = lingerMs;
		this.#socket.close();
	}

	/** Sends the first message inside the call, then the queue, one after the other. */
	async #drain(first: Uint8Array): Promise<void> {
		try {
			if (this.#connection?.connected === false)
				await this.#connection.whenConnected();
			await this.#socket.send(first);
			while (!this.#closed && this.#head < this.#queue.length) {
				const message = this.#take();
				await this.#socket.send(message);
			}
		} catch {
			// Only a closed socket refuses a message: then nothing waits any more.
		}
		this.#busy = false;
		this.#idle?.();
	}

	#take(): Uint8Array {
		const message = this.#queue[this.#head] as Uint8Array;
		this.#head += 1;
		this.#bytes -= message.byteLength;
		// Shifting one by one would move the whole queue each time.
		if (this.#head === this.#queue.length || this.#head >= 1_024) {
			this.#queue = this.#queue.slice(this.#head);
			this.#head = 0;
		}
		return message;
	}
}
