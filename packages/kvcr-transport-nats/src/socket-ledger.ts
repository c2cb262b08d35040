/**
 * Knows every TCP socket one connection opened, so that none outlives it.
 *
 * The client offers no handle for a socket whose connect timed out, or whose last write cannot finish because the other
 * end stopped reading; both would stay open, and the second keeps a stale connection from being replaced. Node announces
 * each client socket on a diagnostics channel, and the async context tells which connection it belongs to. That needs
 * nothing private of the client. (A socket that starts with TLS before the NATS greeting, `handshakeFirst`, is not
 * announced by Node 20.)
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

const current = new AsyncLocalStorage<SocketLedger>();
let listening = false;

/** One subscription for the life of the process: it costs a look-up per new client socket and keeps nothing alive. */
function listen(): void {
	if (listening) return;
	listening = true;
	subscribe("net.client.socket", (message) => {
		const { socket } = message as { socket?: Socket };
		if (socket !== undefined) current.getStore()?.add(socket);
	});
}

/** The sockets opened by whatever was started inside {@link SocketLedger.run}. */
export class SocketLedger {
	private readonly sockets = new Set<Socket>();
	private condemned = false;

	constructor() {
		listen();
	}

	/** Runs `task`; sockets that it, or anything it leads to, opens are recorded. */
	run<T>(task: () => T): T {
		return current.run(this, task);
	}

	/** How many sockets are open. */
	get open(): number {
		this.forgetClosed();
		return this.sockets.size;
	}

	/** Destroys every open socket; the client sees a lost connection and may dial again. */
	destroyAll(): void {
		for (const socket of this.sockets) socket.destroy();
		this.forgetClosed();
	}

	/** Destroys every open socket, and at once any that is still to come. */
	condemn(): void {
		this.condemned = true;
		this.destroyAll();
	}

	/** Records a new socket. */
	add(socket: Socket): void {
		this.forgetClosed();
		this.sockets.add(socket);
		if (this.condemned) socket.destroy();
	}

	private forgetClosed(): void {
		for (const socket of this.sockets)
			if (socket.destroyed) this.sockets.delete(socket);
	}
}
