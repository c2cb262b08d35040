/** What a channel lives through: restarts, fail-over, hanging servers, limits, and its own end. */
import {
	connect as connectTcp,
	createServer,
	type Server,
	type Socket,
} from "node:net";
import { connect } from "@nats-io/transport-node";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
	NatsControlChannel,
	type NatsControlChannelOptions,
} from "../src/index.js";
import {
	describeWithServer,
	NatsServer,
	startCluster,
	until,
} from "./support/nats-server.js";

/** What the test in progress has to end. */
const ends: (() => Promise<unknown>)[] = [];

afterEach(async () => {
	for (const end of ends.splice(0).reverse()) await end();
});

async function server(config?: string): Promise<NatsServer> {
	const started = await NatsServer.start(config);
	ends.push(() => started.stop());
	return started;
}

async function open(
	options: NatsControlChannelOptions,
): Promise<{ channel: NatsControlChannel; endpoint: string; got: number[] }> {
	const channel = new NatsControlChannel(options);
	ends.push(() => channel.close());
	const got: number[] = [];
	await channel.start((message) => got.push(numberOf(message)));
	return { channel, endpoint: channel.endpoint ?? "", got };
}

function message(value: number, size = 4): Uint8Array {
	const bytes = new Uint8Array(size);
	new DataView(bytes.buffer).setUint32(0, value);
	return bytes;
}

function numberOf(bytes: Uint8Array): number {
	return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}

/** Each value at most once, in the order of sending. */
function expectIncreasing(values: readonly number[]): void {
	for (let i = 1; i < values.length; i++)
		expect(values[i]).toBeGreaterThan(values[i - 1] as number);
}

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Settings that notice a hanging server within a few hundred milliseconds. */
const IMPATIENT = { pingInterval: 100, maxPingOut: 2, timeout: 500 };

/** A TCP proxy that can stop reading from its clients, as a host that froze does. New clients are cut off then. */
class StallingProxy {
	connections = 0;
	private stalled = false;
	private readonly sockets = new Set<Socket>();
	private constructor(
		private readonly listener: Server,
		target: number,
	) {
		listener.on("connection", (client) => {
			this.connections++;
			if (this.stalled) {
				client.destroy();
				return;
			}
			const upstream = connectTcp(target, "127.0.0.1");
			client.pipe(upstream);
			upstream.pipe(client);
			for (const socket of [client, upstream]) {
				this.sockets.add(socket);
				socket.on("error", () => {});
			}
			this.pause = () => client.unpipe(upstream).pause();
		});
	}
	private pause = (): void => {};

	static async open(target: number): Promise<StallingProxy> {
		const listener = createServer();
		const proxy = new StallingProxy(listener, target);
		await new Promise<void>((resolve) =>
			listener.listen(0, "127.0.0.1", resolve),
		);
		ends.push(async () => {
			for (const socket of proxy.sockets) socket.destroy();
			await new Promise((resolve) => listener.close(resolve));
		});
		return proxy;
	}

	get port(): number {
		const address = this.listener.address();
		return typeof address === "object" && address !== null ? address.port : 0;
	}

	stall(): void {
		this.stalled = true;
		this.pause();
	}
}

/** A TCP server that accepts and says nothing, like a server behind a broken load balancer. */
class BlackHole {
	readonly sockets = new Set<Socket>();
	accepted = 0;
	private constructor(
		private readonly listener: Server,
		readonly port: number,
	) {
		listener.on("connection", (socket) => {
			this.accepted++;
			this.sockets.add(socket);
			socket.on("error", () => {});
			socket.on("close", () => this.sockets.delete(socket));
			socket.resume();
		});
	}

	static async open(port = 0): Promise<BlackHole> {
		const listener = createServer();
		await new Promise<void>((resolve, reject) => {
			listener.once("error", reject);
			listener.listen(port, "127.0.0.1", resolve);
		});
		const address = listener.address();
		const hole = new BlackHole(
			listener,
			typeof address === "object" && address !== null ? address.port : port,
		);
		ends.push(async () => {
			for (const socket of hole.sockets) socket.destroy();
			await new Promise((resolve) => hole.listener.close(resolve));
		});
		return hole;
	}
}

describeWithServer("a server that goes and comes back", () => {
	it("gets what was sent while it was away, in order and once", async () => {
		const nats = await server();
		const connection = { connect: { servers: nats.address } };
		const a = await open(connection);
		const b = await open(connection);
		a.channel.send(b.endpoint, message(0));
		await until("the first message", () => b.got.length === 1);

		await nats.kill();
		await until("the loss is noticed", () =>
			[a, b].every(({ channel }) => !channel.stats().connected),
		);
		for (let i = 1; i <= 50; i++)
			expect(a.channel.send(b.endpoint, message(i))).toBe(true);
		await nats.run();
		await until("both are back", () =>
			[a, b].every(({ channel }) => channel.stats().reconnects === 1),
		);
		// Which of the two came back first decides whether the queued messages found a listener.
		a.channel.send(b.endpoint, message(51));
		await until("the last message", () => b.got.at(-1) === 51);
		expectIncreasing(b.got);
	});

	it("keeps every queued message for a receiver that is there first", async () => {
		const nats = await server();
		const fast = { reconnectTimeWait: 20, reconnectJitter: 0 };
		const slow = { reconnectTimeWait: 600, reconnectJitter: 0 };
		const a = await open({ connect: { servers: nats.address, ...slow } });
		const b = await open({ connect: { servers: nats.address, ...fast } });
		await nats.kill();
		await until("the loss is noticed", () => !a.channel.stats().connected);
		for (const i of range(100))
			expect(a.channel.send(b.endpoint, message(i))).toBe(true);
		await nats.run();
		await until("all messages", () => b.got.length === 100);
		expect(b.got).toEqual(range(100));
	});

	it("costs a bounded buffer, not memory without end", async () => {
		const nats = await server();
		const a = await open({
			connect: { servers: nats.address },
			maxQueuedMessages: 10,
		});
		await nats.kill();
		let accepted = 0;
		for (let i = 0; i < 100; i++)
			if (a.channel.send("nats://kvcr.b", message(i))) accepted++;
		expect(accepted).toBeLessThanOrEqual(10);
		expect(a.channel.stats().refused.queue_full).toBe(100 - accepted);
	});

	it("is found again after the client itself gave up", async () => {
		const nats = await server();
		const a = await open({
			connect: { servers: nats.address, reconnect: false },
		});
		const b = await open({ connect: { servers: nats.address } });
		await nats.kill();
		await nats.run();
		await until("a message over a new connection", () => {
			a.channel.send(b.endpoint, message(7));
			b.channel.send(a.endpoint, message(8));
			return b.got.includes(7) && a.got.includes(8);
		});
	});
});

describeWithServer("a cluster of three servers", () => {
	it("carries on when the servers of sender and receiver die in turn", async () => {
		const [n0, n1, n2] = await startCluster();
		for (const n of [n0, n1, n2]) ends.push(async () => n?.stop());
		const servers = [n0, n1, n2].map((n) => n?.address ?? "");
		const connection = { noRandomize: true, reconnectTimeWait: 20 };
		const a = await open({ connect: { servers, ...connection } });
		const b = await open({
			connect: {
				servers: [...servers.slice(1), servers[0] as string],
				...connection,
			},
		});
		let next = 0;
		const pulse = setInterval(
			() => a.channel.send(b.endpoint, message(next++)),
			2,
		);
		try {
			await until("messages across servers", () => b.got.length > 50);
			for (const victim of [n0, n1]) {
				const mark = next;
				await victim?.kill();
				await until("messages after a fail-over", () =>
					b.got.some((value) => value > mark + 50),
				);
			}
		} finally {
			clearInterval(pulse);
		}
		expectIncreasing(b.got);
		expect(a.channel.stats().reconnects).toBeGreaterThanOrEqual(1);
		expect(b.channel.stats().reconnects).toBeGreaterThanOrEqual(1);
	});

	it("replaces a connection to a server that hangs", async () => {
		const [n0, n1, n2] = await startCluster();
		for (const n of [n0, n1, n2]) ends.push(async () => n?.stop());
		const servers = [n0, n1, n2].map((n) => n?.address ?? "");
		const a = await open({
			connect: { servers, noRandomize: true, ...IMPATIENT },
		});
		const b = await open({ connect: { servers: servers[1] as string } });
		n0?.signal("SIGSTOP");
		await until(
			"another server",
			() => a.channel.stats().reconnects === 1 && a.channel.stats().connected,
		);
		a.channel.send(b.endpoint, message(1_000));
		await until("a message over another server", () => b.got.includes(1_000));
	});
});

describeWithServer(
	"a connection on which the last write never finishes",
	() => {
		it("is replaced once it is stale", async () => {
			const nats = await server();
			const proxy = await StallingProxy.open(nats.port);
			const a = await open({
				connect: {
					servers: [`127.0.0.1:${proxy.port}`, nats.address],
					noRandomize: true,
					...IMPATIENT,
				},
			});
			const b = await open({ connect: { servers: nats.address } });
			expect(proxy.connections).toBe(1);
			proxy.stall();
			// More than the kernel takes from a socket nobody reads.
			for (let i = 0; i < 20; i++)
				a.channel.send(b.endpoint, message(i, 1 << 20));
			await until("a message over a new connection", () => {
				a.channel.send(b.endpoint, message(1_000));
				return b.got.includes(1_000);
			});
		});
	},
);

describeWithServer("limits of the server", () => {
	it("refuses a message over max_payload with a counter of its own", async () => {
		const nats = await server("max_payload: 65536");
		const connection = { connect: { servers: nats.address } };
		const a = await open(connection);
		const b = await open(connection);
		expect(a.channel.send(b.endpoint, message(1, 65_537))).toBe(false);
		expect(a.channel.stats().refused).toEqual({ over_server_limit: 1 });
		expect(a.channel.send(b.endpoint, message(2, 65_536))).toBe(true);
		await until("the largest message", () => b.got.length === 1);
		expect(b.got).toEqual([2]);
	});

	it("drops what arrives above 1 MiB, whoever sent it", async () => {
		const nats = await server("max_payload: 2MB");
		const b = await open({ connect: { servers: nats.address } });
		const other = await connect({ servers: nats.address });
		ends.push(() => other.close());
		other.publish(
			b.endpoint.slice("nats://".length),
			new Uint8Array((1 << 20) + 1),
		);
		other.publish(b.endpoint.slice("nats://".length), message(5));
		await until("the allowed message", () => b.got.length === 1);
		expect(b.got).toEqual([5]);
		expect(b.channel.stats().dropped).toEqual({ too_large: 1 });
	});
});

describeWithServer("permissions that change", () => {
	it("takes a subscription up again once it is allowed again", async () => {
		const config = (subject: string) =>
			`authorization { users: [
				{user: b, password: b, permissions: {publish: ">", subscribe: {allow: ["${subject}"]}}}
				{user: a, password: a}
			] }`;
		const nats = await server(config("kvcr.b"));
		const b = await open({
			peer: "b",
			announceIntervalMs: 0,
			connect: { servers: nats.address, user: "b", pass: "b" },
		});
		const a = await open({
			announceIntervalMs: 0,
			connect: { servers: nats.address, user: "a", pass: "a" },
		});
		const reached = async (value: number, ms: number) => {
			const end = performance.now() + ms;
			while (!b.got.includes(value) && performance.now() < end) {
				a.channel.send(b.endpoint, message(value));
				await new Promise((resolve) => setTimeout(resolve, 10));
			}
			return b.got.includes(value);
		};
		expect(await reached(1, 4_000)).toBe(true);
		await nats.reload(config("something.else"));
		expect(await reached(2, 400)).toBe(false);
		await nats.reload(config("kvcr.b"));
		expect(await reached(3, 6_000)).toBe(true);
		expectIncreasing([...new Set(b.got)]);
	});
});

describe("a server that accepts and says nothing", () => {
	it("fails the start in time and leaves no socket", async () => {
		const hole = await BlackHole.open();
		const channel = new NatsControlChannel({
			connect: { servers: `127.0.0.1:${hole.port}` },
			connectTimeoutMs: 200,
		});
		await expect(channel.start(() => {})).rejects.toMatchObject({
			code: "ERR_KVCR_NATS_CONNECTION",
			message: expect.stringContaining(`127.0.0.1:${hole.port}`),
		});
		expect(hole.accepted).toBeGreaterThan(0);
		await until("its sockets are closed", () => hole.sockets.size === 0, 1_000);
		await channel.close();
	});

	it("does not hold up a close during the start", async () => {
		const hole = await BlackHole.open();
		const channel = new NatsControlChannel({
			connect: { servers: `127.0.0.1:${hole.port}` },
			connectTimeoutMs: 60_000,
		});
		const start = channel.start(() => {});
		const failed = expect(start).rejects.toMatchObject({
			code: "ERR_KVCR_CLOSED",
		});
		await until("the connection attempt", () => hole.sockets.size === 1);
		await channel.close();
		await failed;
		await until("its sockets are closed", () => hole.sockets.size === 0, 1_000);
	});
});

describeWithServer("the end of a channel", () => {
	let nats: NatsServer;
	beforeEach(async () => {
		nats = await server();
	});

	it("delivers what was accepted before close", async () => {
		const a = await open({ connect: { servers: nats.address } });
		const b = await open({ connect: { servers: nats.address } });
		for (const i of range(1_000)) a.channel.send(b.endpoint, message(i));
		await a.channel.close();
		await until("all messages", () => b.got.length === 1_000);
		expect(b.got).toEqual(range(1_000));
		expect(a.channel.stats().lost.closed).toBe(0);
	});

	it("delivers what was accepted before close, also beyond one window", async () => {
		const a = await open({
			connect: { servers: nats.address },
			drainTimeoutMs: 5_000,
		});
		const b = await open({ connect: { servers: nats.address } });
		for (const i of range(12)) a.channel.send(b.endpoint, message(i, 1 << 20));
		await a.channel.close();
		await until("all messages", () => b.got.length === 12);
		expect(b.got).toEqual(range(12));
	});

	it("is bounded when the server hangs", async () => {
		const a = await open({
			connect: { servers: nats.address },
			drainTimeoutMs: 100,
		});
		nats.signal("SIGSTOP");
		for (let i = 0; i < 10; i++)
			a.channel.send("nats://kvcr.b", message(i, 1 << 20));
		const before = performance.now();
		await a.channel.close();
		expect(performance.now() - before).toBeLessThan(1_000);
	});

	it("closes the socket of a reconnect that is stuck", async () => {
		const a = await open({ connect: { servers: nats.address } });
		await nats.kill();
		const hole = await BlackHole.open(nats.port);
		await until("the stuck attempt", () => hole.sockets.size === 1);
		await a.channel.close();
		await until("its sockets are closed", () => hole.sockets.size === 0, 1_000);
	});

	it("leaves neither sockets nor timers", async () => {
		const count = () =>
			process
				.getActiveResourcesInfo()
				.filter((kind) => /TCP|TLS|Timeout/.test(kind)).length;
		const before = count();
		for (let i = 0; i < 20; i++) {
			const a = await open({ connect: { servers: nats.address } });
			a.channel.send(a.endpoint, message(1));
			await a.channel.close();
		}
		await until("everything is released", () => count() <= before, 2_000);
	});

	it("refuses to send once a caller closed its connection", async () => {
		const connection = await connect({ servers: nats.address });
		const a = await open({ connection });
		await connection.close();
		expect(a.channel.send("nats://kvcr.b", message(1))).toBe(false);
		expect(a.channel.stats().refused).toEqual({ connection_closed: 1 });
	});

	it("can be started again after a start that failed", async () => {
		await nats.kill();
		const channel = new NatsControlChannel({
			connect: { servers: nats.address },
			connectTimeoutMs: 500,
		});
		ends.push(() => channel.close());
		await expect(channel.start(() => {})).rejects.toMatchObject({
			code: "ERR_KVCR_NATS_CONNECTION",
		});
		await nats.run();
		const got: number[] = [];
		await channel.start((bytes) => got.push(numberOf(bytes)));
		channel.send(channel.endpoint ?? "", message(3));
		await until("its own message", () => got.length === 1);
	});
});
