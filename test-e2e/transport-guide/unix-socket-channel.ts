/** The example of `docs/transport-guide.md`: a control channel over Unix sockets. Endpoint `unix:///path/of.sock`. */
import { connect, createServer, type Socket } from "node:net";
import {
	AlreadyStartedError,
	ClosedError,
	type ControlChannel,
	type ControlReceiver,
	InvalidEndpointError,
	MAX_CONTROL_MESSAGE_BYTES,
} from "kvcr-core";

/** Most messages and most bytes waiting for one peer, most peers at a time, and the longest flush of `close`. */
const LIMITS = { queued: 10_000, bytes: 16 << 20, peers: 1_024, flushMs: 200 };

/** Frames are a 4-byte big-endian length and that many bytes; one connection for each pair and direction. */
export class UnixSocketChannel implements ControlChannel {
	#state: "new" | "open" | "closed" = "new";
	#receive: ControlReceiver = () => {};
	#closed: Promise<unknown> | undefined;
	readonly #path: string | undefined;
	readonly #server = createServer((socket) => this.#accept(socket));
	readonly #outgoing = new Map<string, { socket: Socket; queued: number }>();
	readonly #incoming = new Set<Socket>();
	readonly #counts = { sent: 0, received: 0 };
	readonly #refused: Record<string, number> = {};
	readonly #dropped: Record<string, number> = {};

	/** @param endpoint where to listen; without it, the channel can only send. */
	constructor(readonly endpoint: string | undefined = undefined) {
		this.#path = endpoint === undefined ? undefined : pathOf(endpoint);
		if (endpoint !== undefined && this.#path === undefined)
			throw new InvalidEndpointError("new", endpoint, "unix:///<path>");
	}

	async start(receive: ControlReceiver): Promise<void> {
		if (this.#state === "closed") throw new ClosedError("start", "the channel");
		if (this.#state === "open")
			throw new AlreadyStartedError("start", "the channel");
		this.#state = "open";
		this.#receive = receive;
		if (this.#path === undefined) return;
		await new Promise<void>((resolve, reject) => {
			const overtaken = () => reject(new ClosedError("start", "the channel"));
			this.#server.once("error", reject).once("close", overtaken);
			this.#server.listen(this.#path, resolve);
		});
	}

	send(endpoint: string, message: Uint8Array): boolean {
		const path = pathOf(endpoint);
		const size = message.byteLength;
		if (this.#state !== "open") return count(this.#refused, "not_open");
		if (path === undefined) return count(this.#refused, "bad_endpoint");
		if (size > MAX_CONTROL_MESSAGE_BYTES)
			return count(this.#refused, "too_large");
		const peer = this.#outgoing.get(path) ?? this.#dial(path);
		const waiting = peer?.socket.writableLength ?? 0;
		if (!peer || peer.queued >= LIMITS.queued || waiting + size > LIMITS.bytes)
			return count(this.#refused, "queue_full");
		const frame = Buffer.allocUnsafe(4 + size);
		frame.writeUInt32BE(size);
		frame.set(message, 4);
		peer.queued++;
		peer.socket.write(frame, () => peer.queued--);
		this.#counts.sent++;
		return true;
	}

	stats() {
		const [refused, dropped] = [{ ...this.#refused }, { ...this.#dropped }];
		return { ...this.#counts, refused, dropped };
	}

	async close(): Promise<void> {
		this.#state = "closed";
		for (const socket of this.#incoming) socket.destroy();
		this.#closed ??= Promise.all([
			new Promise((resolve) => this.#server.close(resolve)),
			...[...this.#outgoing.values()].map(({ socket }) => flushed(socket)),
		]);
		await this.#closed;
	}

	#dial(path: string) {
		if (this.#outgoing.size >= LIMITS.peers) return undefined;
		// Node keeps what is written until the connection is made, in order: no queue of our own is needed.
		const peer = { socket: connect(path), queued: 0 };
		this.#outgoing.set(path, peer);
		// What was queued for a peer that is gone is lost; the next send dials again.
		peer.socket.on("error", () => {});
		peer.socket.on("close", () => this.#outgoing.delete(path)).resume();
		return peer;
	}

	#accept(socket: Socket): void {
		this.#incoming.add(socket);
		socket.on("error", () => {});
		socket.on("close", () => this.#incoming.delete(socket));
		let rest = Buffer.alloc(0);
		socket.on("data", (chunk) => {
			rest = Buffer.concat([rest, chunk]);
			while (rest.byteLength >= 4) {
				const end = 4 + rest.readUInt32BE();
				// A length that cannot be believed: the end of the frame cannot be found.
				if (end > 4 + MAX_CONTROL_MESSAGE_BYTES) {
					count(this.#dropped, "too_large");
					socket.destroy();
				}
				if (socket.destroyed || rest.byteLength < end) return;
				this.#deliver(new Uint8Array(rest.subarray(4, end)));
				rest = rest.subarray(end);
			}
		});
	}

	#deliver(message: Uint8Array): void {
		if (this.#state !== "open") return;
		this.#counts.received++;
		try {
			this.#receive(message);
		} catch {
			count(this.#dropped, "receiver_failed");
		}
	}
}

/** The path of an endpoint, absolute and plain, or `undefined`. A longer one does not fit into a socket address. */
function pathOf(endpoint: string): string | undefined {
	const path = /^unix:\/\/((?:\/[\w-][\w.-]*)+)$/.exec(endpoint)?.[1];
	return path === undefined || path.length > 107 ? undefined : path;
}

/** Ends a socket, and cuts it when its bytes do not flow in time. */
function flushed(socket: Socket): Promise<unknown> {
	const timer = setTimeout(() => socket.destroy(), LIMITS.flushMs);
	socket.end();
	return new Promise((resolve) => {
		socket.once("close", () => resolve(clearTimeout(timer)));
	});
}

function count(counters: Record<string, number>, reason: string): false {
	counters[reason] = (counters[reason] ?? 0) + 1;
	return false;
}
