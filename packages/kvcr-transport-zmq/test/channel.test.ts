import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { ManualClock } from "kvcr-core/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Push } from "zeromq";
import {
	generateCurveKeys,
	ZmqControlChannel,
	type ZmqControlChannelOptions,
} from "../src/index.js";
import { until } from "./helpers/until.js";

let ends: (() => unknown)[] = [];
beforeEach(() => {
	ends = [];
});
afterEach(async () => {
	for (const end of ends.reverse()) await end();
});

async function open(options: ZmqControlChannelOptions = {}) {
	const channel = new ZmqControlChannel(options);
	ends.push(() => channel.close());
	const got: Buffer[] = [];
	await channel.start((message) => got.push(Buffer.from(message)));
	return { channel, endpoint: channel.endpoint as string, got };
}

function child(role: string, argument = ""): ChildProcess {
	const made = fork(
		new URL("./helpers/child.ts", import.meta.url),
		[role, argument],
		{
			execArgv: ["--import", "tsx", "--conditions", "kvcr-source"],
			stdio: ["ignore", "pipe", "inherit", "ipc"],
		},
	);
	ends.push(() => made.kill("SIGKILL"));
	return made;
}

/** Starts a receiving process; collects what it got. */
async function receiver(port = 0) {
	const process = child("receiver", String(port));
	const got: string[] = [];
	let endpoint = "";
	process.on("message", (message: { got?: string; endpoint?: string }) => {
		if (message.got !== undefined) got.push(message.got);
		if (message.endpoint !== undefined) endpoint = message.endpoint;
	});
	await until("its endpoint", () => endpoint !== "");
	return { process, got, endpoint };
}

/** Whether nobody listens on a port. */
async function isFree(port: number): Promise<boolean> {
	const server = createServer();
	try {
		server.listen(port, "127.0.0.1");
		await once(server, "listening");
		return true;
	} catch {
		return false;
	} finally {
		server.close();
	}
}

describe("a close during the start", () => {
	it.each([
		["without", undefined],
		["with", generateCurveKeys()],
	])(
		"frees the port at whatever moment it comes, %s CURVE",
		async (_, keys) => {
			const { channel, endpoint } = await open();
			const port = Number(endpoint.split(":").at(-1));
			await channel.close();
			for (let moment = 0; moment < 40; moment += 1) {
				const next = new ZmqControlChannel({
					port,
					...(keys && {
						curve: { ...keys, allow: [], serverKey: keys.publicKey },
					}),
				});
				const start = next
					.start(() => {})
					.then(
						() => "started",
						({ code }) => code,
					);
				// Most of the moments are within the first turn of the event loop, the rest are turns.
				for (let at = 0; at < Math.min(moment, 30); at += 1)
					await Promise.resolve();
				for (let at = 30; at < moment; at += 1)
					await new Promise((resolve) => setImmediate(resolve));
				await next.close();
				expect(["started", "ERR_KVCR_CLOSED"]).toContain(await start);
				let free = false;
				for (let tries = 0; !free && tries < 200; tries += 1) {
					free = await isFree(port);
					if (!free) await new Promise((resolve) => setTimeout(resolve, 10));
				}
				expect({ moment, free }).toEqual({ moment, free: true });
			}
		},
	);
});

describe("endpoints", () => {
	it("are exclusive where peers are told the address that is bound, and not where something translates it", () => {
		expect(new ZmqControlChannel().exclusiveEndpoint).toBe(true);
		expect(
			new ZmqControlChannel({ host: "0.0.0.0", advertise: "tcp://10.0.0.7:1" })
				.exclusiveEndpoint,
		).toBe(false);
	});

	it("binds a wildcard and advertises what it is told, aliases included", async () => {
		const { channel } = await open({
			host: "0.0.0.0",
			advertise: ["tcp://127.0.0.1", "tcp://localhost:0", "tcp://[::1]:77"],
		});
		const port = /:(\d+)$/.exec(channel.endpoint as string)?.[1];
		expect(Number(port)).toBeGreaterThan(0);
		expect(channel.endpoints).toEqual([
			`tcp://127.0.0.1:${port}`,
			`tcp://localhost:${port}`,
			"tcp://[::1]:77",
		]);
		const other = await open();
		await until("a message by name", () => {
			other.channel.send(channel.endpoints[1] as string, Buffer.from("x"));
			return channel.stats().received > 0;
		});
	});

	it.each(["0.0.0.0", "::", "*", "0"])("refuses to advertise %s", (host) => {
		const literal = host.includes(":") ? `[${host}]` : host;
		for (const options of [{ host }, { advertise: `tcp://${literal}:5` }])
			expect(() => new ZmqControlChannel(options)).toThrow(
				expect.objectContaining({ code: "ERR_KVCR_INVALID_ENDPOINT" }),
			);
	});

	it("binds a host name", async () => {
		expect((await open({ host: "localhost" })).endpoint).toMatch(
			/^tcp:\/\/localhost:\d+$/,
		);
	});

	it("says when an address cannot be used", async () => {
		const { endpoint } = await open();
		const port = Number(/:(\d+)$/.exec(endpoint)?.[1]);
		for (const options of [
			{ port },
			{ host: "192.0.2.1" },
			{ host: "no-such-host.invalid" },
		])
			await expect(open(options)).rejects.toMatchObject({
				code: "ERR_KVCR_INVALID_ENDPOINT",
			});
		for (const options of [
			{ port: -1 },
			{ port: 70_000 },
			{ maxPeers: 0 },
			{ host: "tcp://x" },
		])
			expect(() => new ZmqControlChannel(options)).toThrow(
				expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT" }),
			);
	});

	it.each([
		"ipc:///tmp/x",
		"inproc://x",
		"tcp://*:5",
		"tcp://127.0.0.1",
		"tcp://127.0.0.1:0",
		"tcp://127.0.0.1:65536",
		"tcp://127.0.0.1:5;127.0.0.1:6",
		"tcp://eth0;127.0.0.1:5",
		"tcp://[zz]:5",
		"tcp://a b:5",
		"TCP://127.0.0.1:5",
	])("refuses to send to %s", async (endpoint) => {
		const { channel } = await open();
		expect(channel.send(endpoint, Buffer.from("x"))).toBe(false);
		expect(channel.stats().refused).toEqual({ bad_endpoint: 1 });
		expect(channel.peerCount).toBe(0);
	});
});

describe("misuse", () => {
	it.each([
		["options", null],
		["advertise", { advertise: 7 }],
		["advertise", { advertise: [] }],
		["curve", { curve: null }],
		["curve.publicKey", { curve: {} }],
		["maxQueuedMessages", { maxQueuedMessages: "many" }],
		["clock", { clock: {} }],
	])("of the constructor is a typed error: %s", (argument, options) => {
		expect(() => new ZmqControlChannel(options as never)).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT", argument }),
		);
	});

	it("starts with a receiver or not at all, and sends bytes or nothing", async () => {
		const channel = new ZmqControlChannel();
		ends.push(() => channel.close());
		await expect(channel.start(undefined as never)).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ARGUMENT",
		});
		const got: Uint8Array[] = [];
		await channel.start((message) => got.push(message));
		const to = channel.endpoint as string;
		for (const message of [undefined, null, "text", 7, {}, [1]])
			expect(channel.send(to, message as never)).toBe(false);
		expect(channel.send(to, Uint8Array.of(1))).toBe(true);
		await until("the bytes", () => got.length > 0);
		expect(got.map((one) => [...one])).toEqual([[1]]);
		expect(channel.stats().refused).toEqual({ not_bytes: 6 });
	});
});

describe("queues", () => {
	it("delivers a burst of 10,000 messages, all of them, in order", async () => {
		const [a, b] = [await open(), await open()];
		for (let i = 0; i < 10_000; i += 1) {
			const message = Buffer.alloc(100);
			message.writeUInt32LE(i);
			expect(a.channel.send(b.endpoint, message)).toBe(true);
		}
		await until("all", () => b.got.length === 10_000);
		b.got.forEach((message, i) => {
			if (message.readUInt32LE() !== i) throw new Error(`${i} out of order`);
		});
		expect(a.channel.stats()).toMatchObject({ sent: 10_000, refused: {} });
	});

	it("refuses by count and by bytes, per peer, and counts it", async () => {
		const { channel } = await open({
			maxQueuedMessages: 100,
			maxQueuedBytes: 1 << 20,
		});
		const absent = "tcp://127.0.0.1:1";
		const accepted = [];
		for (let i = 0; i < 200; i += 1)
			accepted.push(channel.send(absent, Buffer.from("x")));
		expect(accepted.indexOf(false)).toBe(101);
		const big = "tcp://127.0.0.1:2";
		let bytes = 0;
		while (channel.send(big, new Uint8Array(300_000))) bytes += 300_000;
		expect(bytes).toBeLessThanOrEqual((1 << 20) + 300_000);
		const { channel: other } = await open();
		expect(channel.send(other.endpoint as string, Buffer.from("x"))).toBe(true);
		expect(channel.stats().refused.queue_full).toBe(100);
	});

	it("drops the peer idle longest for one more than it may have, and idle ones after their time", async () => {
		const clock = new ManualClock();
		const { channel } = await open({ maxPeers: 3, peerIdleMs: 1_000, clock });
		const peers = [await open(), await open(), await open(), await open()];
		for (const [i, peer] of peers.entries()) {
			channel.send(peer.endpoint, Buffer.from(`first ${i}`));
			await until("the message", () => peer.got.length === 1);
			clock.advance(100);
		}
		expect(channel.peerCount).toBe(3);
		const [dropped] = peers as [(typeof peers)[0]];
		channel.send(dropped.endpoint, Buffer.from("again"));
		await until("the message after a drop", () => dropped.got.length === 2);
		expect(channel.peerCount).toBe(3);
		clock.advance(900);
		expect(channel.peerCount).toBe(1);
		clock.advance(1_000);
		expect(channel.peerCount).toBe(0);
		expect(clock.pending).toBe(0);
	});

	it("is limited in what it receives: too large or in parts", async () => {
		const b = await open();
		const hostile = new Push({ linger: 0 });
		ends.push(() => hostile.close());
		hostile.connect(b.endpoint);
		await hostile.send(["in", "parts"]);
		await until("the parts", () => b.channel.stats().dropped.multipart === 1);
		await hostile.send(new Uint8Array((1 << 20) + 1));
		const a = await open();
		a.channel.send(b.endpoint, Buffer.from("fine"));
		await until("another peer's message", () => b.got.length === 1);
		expect(b.got[0]?.toString()).toBe("fine");
	});
});

describe("hostile bytes", () => {
	it("lives through noise on its port while it serves others", async () => {
		const [a, b] = [await open(), await open()];
		const port = Number(/:(\d+)$/.exec(b.endpoint)?.[1]);
		let state = 4711;
		const random = () => {
			state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
			return state >> 8;
		};
		const greeting = Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
		const end = performance.now() + 2_000;
		let sent = 0;
		while (performance.now() < end) {
			for (let i = 0; i < 20; i += 1) {
				const socket = createConnection(port, "127.0.0.1");
				socket.on("error", () => {});
				socket.resume();
				const noise = Buffer.from(
					Array.from({ length: 1 + (random() % 400) }, () => random() & 0xff),
				);
				socket.end(i % 2 ? noise : Buffer.concat([greeting, noise]));
			}
			a.channel.send(b.endpoint, Buffer.from(`#${sent++}`));
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
		// Without CURVE, libzmq also takes messages of its oldest protocol, which noise can happen to spell.
		const honest = () =>
			b.got.map(String).filter((text) => /^#\d+$/.test(text));
		await until("all honest messages", () => honest().length >= sent);
		expect(honest()).toEqual(Array.from({ length: sent }, (_, i) => `#${i}`));
	});
});

describe("processes", () => {
	it("finds a peer again that was killed and restarted on its port", async () => {
		const a = await open();
		let peer = await receiver();
		const port = Number(/:(\d+)$/.exec(peer.endpoint)?.[1]);
		for (let round = 0; round < 3; round += 1) {
			await until(`round ${round}`, () => {
				a.channel.send(peer.endpoint, Buffer.from(`round ${round}`));
				return peer.got.includes(`round ${round}`);
			});
			peer.process.kill("SIGKILL");
			await once(peer.process, "exit");
			a.channel.send(peer.endpoint, Buffer.from("while away"));
			peer = await receiver(port);
		}
	});

	it.each([
		["closes", 0],
		["exits", 7],
	])(
		"ends by itself although messages wait for nobody (%s)",
		async (role, code) => {
			const process = child(role);
			const start = performance.now();
			const [exit, signal] = await once(process, "exit");
			expect([exit, signal]).toEqual([code, null]);
			expect(performance.now() - start).toBeLessThan(6_000);
		},
	);

	it("survives the end of worker threads with busy channels", async () => {
		const process = child("workers");
		let output = "";
		process.stdout?.on("data", (bytes: Buffer) => {
			output += bytes.toString();
		});
		const [exit, signal] = await once(process, "exit");
		expect([exit, signal]).toEqual([0, null]);
		expect(output).toContain("all workers ended");
	});

	it.each([
		["exit at once", "the process goes on\n"],
		["exit", "the process goes on\n"],
		["throw", "thrown on purpose\nthe process goes on\n"],
	])(
		"survives the end of a worker thread whose channel is closing (%s)",
		async (how, expected) => {
			const process = fork(
				new URL("./helpers/closing-worker.mjs", import.meta.url),
				[how],
				{
					execArgv: ["--conditions", "kvcr-source"],
					stdio: ["ignore", "pipe", "inherit", "ipc"],
				},
			);
			ends.push(() => process.kill("SIGKILL"));
			let output = "";
			process.stdout?.on("data", (bytes: Buffer) => {
				output += bytes.toString();
			});
			const [exit, signal] = await once(process, "close");
			expect([exit, signal, output]).toEqual([0, null, expected]);
		},
	);
});
