/**
 * Stands between an agent and those that connect to it over TCP, so that a test can break their connections while both
 * live. UCX has to use the loopback device and TCP alone, which is decided before it is loaded: see `OVER_RELAYS`.
 */
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import {
	type AddressInfo,
	connect,
	createServer,
	type Server,
	type Socket,
} from "node:net";

/** The environment of a process whose agents are reached through relays. */
export const OVER_RELAYS = { UCX_TLS: "tcp", UCX_NET_DEVICES: "lo" } as const;

export class Relay {
	readonly #target: number;
	readonly #port: number;
	#server: Server | undefined;
	readonly #sockets = new Set<Socket>();

	private constructor(target: number, port: number) {
		this.#target = target;
		this.#port = port;
	}

	/** Creates something that listens, and a relay to it. */
	static async before<T>(create: () => Promise<T>): Promise<[T, Relay]> {
		const before = new Set(listeningPorts());
		const created = await create();
		const [target] = listeningPorts().filter((port) => !before.has(port));
		if (target === undefined) throw new Error("nothing listens");
		const server = await listen(0);
		const relay = new Relay(target, (server.address() as AddressInfo).port);
		relay.#serve(server);
		return [created, relay];
	}

	/** The port that connections are redirected to. */
	get port(): number {
		return this.#port;
	}

	/** The same metadata, with the relay in the place of the agent; or whatever listens on another port. */
	redirect(metadata: Uint8Array, port = this.#port): Buffer {
		const redirected = Buffer.from(metadata);
		const wanted = Buffer.alloc(2);
		wanted.writeUInt16BE(this.#target);
		const end = redirected.indexOf("MemSection");
		let found = 0;
		let at = redirected.indexOf(wanted, redirected.indexOf("Conns"));
		for (; at >= 0 && at < end; at = redirected.indexOf(wanted, at + 2)) {
			redirected.writeUInt16BE(port, at);
			found += 1;
		}
		if (found === 0) throw new Error("the metadata does not name the port");
		return redirected;
	}

	/** Resets every connection. New ones are still accepted. */
	reset(): void {
		for (const socket of this.#sockets) socket.resetAndDestroy();
		this.#sockets.clear();
	}

	/** Lets nothing through any more; connections stay. */
	stall(): void {
		for (const socket of this.#sockets) socket.unpipe().pause();
	}

	/** Resets every connection, and refuses new ones until `open`. */
	async close(): Promise<void> {
		this.reset();
		this.#server?.close();
		this.#server = undefined;
	}

	async open(): Promise<void> {
		this.#serve(await listen(this.#port));
	}

	#serve(server: Server): void {
		this.#server = server;
		server.on("connection", (near) => {
			const far = connect(this.#target, "127.0.0.1");
			for (const socket of [near, far]) {
				this.#sockets.add(socket);
				socket.on("error", () => {});
				socket.on("close", () => this.#sockets.delete(socket));
			}
			near.pipe(far).pipe(near);
		});
	}
}

async function listen(port: number): Promise<Server> {
	const server = createServer().listen(port, "127.0.0.1");
	await once(server, "listening");
	return server;
}

/** Ports of this process that accept connections. */
function listeningPorts(): number[] {
	const own = new Set<string>();
	for (const fd of readdirSync("/proc/self/fd")) {
		try {
			own.add(readlinkSync(`/proc/self/fd/${fd}`));
		} catch {
			// The folder itself was open while it was read.
		}
	}
	return readFileSync("/proc/self/net/tcp", "utf8")
		.split("\n")
		.slice(1)
		.map((line) => line.trim().split(/\s+/))
		.filter((f) => f[3] === "0A" && own.has(`socket:[${f[9]}]`))
		.map((f) => Number.parseInt(f[1]?.split(":")[1] ?? "", 16));
}
