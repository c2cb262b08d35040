/** Publishers with host names: they are looked up here, and one that nobody knows holds up no other socket. */
import { encode } from "@msgpack/msgpack";
import { InvalidArgumentError, type RouterHash, silentLogger } from "kvcr-core";
import { ManualClock } from "kvcr-core/testing";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Dealer, Publisher, Router, Subscriber } from "zeromq";
import {
	KvEventSubscriber,
	type KvEventSubscriberOptions,
} from "../src/events/index.js";
import { Names } from "../src/events/names.js";
import { PublisherConnection } from "../src/events/publisher-connection.js";
import { ReverseHashMap } from "../src/index.js";
import { sequence } from "./support/sequence.js";

const closers: (() => unknown)[] = [];
afterEach(async () => {
	for (const close of closers.splice(0).reverse()) await close();
	vi.restoreAllMocks();
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

function payload(seq: number): Uint8Array {
	const block_hashes = [Buffer.alloc(32, seq + 1)];
	return encode([seq, [{ type: "BlockStored", block_hashes }]]);
}

const routerHash = (seq: number) =>
	Buffer.alloc(8, seq + 1).readBigUInt64BE() as RouterHash;

/** A publisher on the loopback address whose replays bring the batches before the one asked about last. */
async function publisher() {
	const pub = new Publisher({ linger: 0 });
	await pub.bind("tcp://127.0.0.1:*");
	const router = new Router({ linger: 0 });
	await router.bind("tcp://127.0.0.1:*");
	const serving = (async () => {
		for await (const [peer] of router) {
			const id = peer as Buffer;
			await router.send([id, "", "", sequence(0), payload(0)]);
			await router.send([id, "", "", Buffer.alloc(8, 0xff), ""]);
		}
	})();
	closers.push(async () => {
		pub.close();
		router.close();
		await serving;
	});
	const port = (socket: Publisher | Router) =>
		Number(socket.lastEndpoint?.split(":").at(-1));
	return {
		port: port(pub),
		replayPort: port(router),
		send: (seq: number) => pub.send(["", sequence(seq), payload(seq)]),
	};
}

async function subscribe(
	publishers: KvEventSubscriberOptions["publishers"],
	more: Partial<KvEventSubscriberOptions> = {},
) {
	const map = new ReverseHashMap();
	const subscriber = new KvEventSubscriber({
		map,
		publishers,
		logger: silentLogger,
		...more,
	});
	closers.push(() => subscriber.close());
	await subscriber.start();
	return { map, subscriber };
}

describe("a host name", () => {
	it("is looked up for events and replays, and ZeroMQ gets the address only", async () => {
		const connected: string[] = [];
		for (const kind of [Subscriber, Dealer] as const) {
			const { connect } = kind.prototype;
			vi.spyOn(kind.prototype, "connect").mockImplementation(function (
				this: Subscriber | Dealer,
				endpoint: string,
			) {
				connected.push(endpoint);
				connect.call(this, endpoint);
			});
		}
		const asked: string[] = [];
		const source = await publisher();
		const { map } = await subscribe(
			[
				{
					endpoint: `tcp://engine.example:${source.port}`,
					replayEndpoint: `tcp://engine.example:${source.replayPort}`,
				},
			],
			{
				lookup: async (host) => {
					asked.push(host);
					return "127.0.0.1";
				},
			},
		);
		let seq = 1;
		await expect
			.poll(
				async () => {
					await source.send(seq++);
					return [0, 1].map((n) => map.status(routerHash(n)));
				},
				{ timeout: 5000, interval: 10 },
			)
			// The first of them by a replay.
			.toContain("unique");
		await expect
			.poll(() => map.status(routerHash(0)), { timeout: 5000 })
			.toBe("unique");
		expect(new Set(asked)).toEqual(new Set(["engine.example"]));
		expect(new Set(connected)).toEqual(
			new Set([
				`tcp://127.0.0.1:${source.port}`,
				`tcp://127.0.0.1:${source.replayPort}`,
			]),
		);
	});

	it("of this machine is found by the system", async () => {
		const source = await publisher();
		const { map } = await subscribe([
			{ endpoint: `tcp://localhost:${source.port}` },
		]);
		await expect
			.poll(
				async () => {
					await source.send(0);
					return map.status(routerHash(0));
				},
				{ timeout: 5000, interval: 10 },
			)
			.toBe("unique");
	});

	it("that takes long holds up neither other publishers nor the close", async () => {
		const source = await publisher();
		const { map, subscriber } = await subscribe(
			[
				{ endpoint: "tcp://slow.example:5557" },
				{
					endpoint: `tcp://127.0.0.1:${source.port}`,
					replayEndpoint: "tcp://slow.example:5558",
				},
			],
			{ lookup: () => new Promise(() => {}), replayTimeoutMs: 100 },
		);
		let seq = 5;
		await expect
			.poll(
				async () => {
					await source.send(seq++);
					return map.size;
				},
				{ timeout: 5000, interval: 10 },
			)
			.toBeGreaterThan(0);
		const start = performance.now();
		await subscriber.close();
		expect(performance.now() - start).toBeLessThan(1000);
	});

	it("that nobody knows is logged once", async () => {
		const warnings: object[] = [];
		let asked = 0;
		await subscribe([{ endpoint: "tcp://nobody.example:5557" }], {
			lookup: async () => {
				asked += 1;
				throw new Error("unknown host");
			},
			logger: { ...silentLogger, warn: (fields) => warnings.push(fields) },
		});
		await expect.poll(() => asked, { timeout: 5000 }).toBe(2);
		await turn();
		expect(warnings).toEqual([
			{
				publisher: "tcp://nobody.example:5557",
				error: expect.objectContaining({ code: "ERR_KVCR_CONNECT_FAILED" }),
			},
		]);
	});

	it("is looked up by a function or not at all", () => {
		const options = {
			map: new ReverseHashMap(),
			publishers: [{ endpoint: "tcp://engine.example:5557" }],
			lookup: "dns" as never,
		};
		expect(() => new KvEventSubscriber(options)).toThrow(InvalidArgumentError);
	});
});

/** A connection over a socket that only notes, and look-ups that a test answers. */
function scripted(endpoint: string) {
	const clock = new ManualClock();
	const asked: string[] = [];
	const open: { resolve(address: string): void; reject(): void }[] = [];
	const names = new Names((host) => {
		asked.push(host);
		return new Promise((resolve, reject) => {
			open.push({ resolve, reject: () => reject(new Error("unknown host")) });
		});
	});
	const calls: string[] = [];
	const socket = {
		ipv6: false,
		connect: (to: string) => void calls.push(`connect ${to}`),
		disconnect: (from: string) => void calls.push(`disconnect ${from}`),
	};
	const connection = new PublisherConnection({
		socket,
		endpoint,
		names,
		clock,
		moved: () => calls.push("moved"),
		unknown: () => calls.push("unknown"),
	});
	const answer = async (address: string | undefined) => {
		const one = open.shift();
		if (address === undefined) one?.reject();
		else one?.resolve(address);
		await turn();
	};
	const took = () => calls.splice(0);
	return { clock, asked, names, socket, connection, answer, took };
}

describe("a connection to a host name", () => {
	it("follows a publisher that moved, and looks when it is broken, not more often than every 5 s", async () => {
		const { clock, asked, socket, connection, answer, took } = scripted(
			"tcp://pod.example:5557",
		);
		await answer("10.0.0.1");
		expect(took()).toEqual(["connect tcp://10.0.0.1:5557"]);
		clock.advance(4_999);
		connection.broken();
		expect(asked).toHaveLength(1);
		clock.advance(1);
		connection.broken();
		connection.broken();
		await answer("10.0.0.1");
		clock.advance(5_000);
		connection.broken();
		await answer(undefined);
		// Neither is a reason to go anywhere else.
		expect(took()).toEqual([]);
		clock.advance(5_000);
		connection.broken();
		await answer("fd00::2");
		expect(asked).toHaveLength(4);
		expect(took()).toEqual([
			"connect tcp://[fd00::2]:5557",
			"disconnect tcp://10.0.0.1:5557",
			"moved",
		]);
		expect(socket.ipv6).toBe(true);
		connection.renew();
		expect(took()).toEqual([
			"disconnect tcp://[fd00::2]:5557",
			"connect tcp://[fd00::2]:5557",
		]);
	});

	it("is tried every second where the name leads nowhere, until it is closed", async () => {
		const { clock, asked, connection, answer, took } = scripted(
			"tcp://later.example:5557",
		);
		connection.renew();
		await answer(undefined);
		clock.advance(1_000);
		await answer("no address");
		expect(took()).toEqual(["unknown", "unknown"]);
		connection.broken();
		clock.advance(999);
		expect(asked).toHaveLength(2);
		connection.close();
		clock.advance(10_000);
		connection.broken();
		expect(asked).toHaveLength(2);
	});
});

describe("look-ups of a subscription", () => {
	it("are two at a time, one per host, and do not begin after the close", async () => {
		const { asked, names, answer } = scripted("tcp://a.example:1");
		const found = ["a", "b", "b", "c", "d"].map((host, port) =>
			names.find(`tcp://${host}.example:${port + 1}`).catch(String),
		);
		await turn();
		expect(asked).toEqual(["a.example", "b.example"]);
		await answer("10.0.0.1");
		expect(asked).toEqual(["a.example", "b.example", "c.example"]);
		names.close();
		await answer("10.0.0.2");
		await answer("10.0.0.3");
		expect(await Promise.all(found)).toEqual([
			{ endpoint: "tcp://10.0.0.1:1", ipv6: false },
			{ endpoint: "tcp://10.0.0.2:2", ipv6: false },
			{ endpoint: "tcp://10.0.0.2:3", ipv6: false },
			{ endpoint: "tcp://10.0.0.3:4", ipv6: false },
			expect.stringContaining("closed"),
		]);
		expect(asked).toHaveLength(3);
		expect(names.last("tcp://b.example:9")?.endpoint).toBe("tcp://10.0.0.2:9");
	});

	it.each([
		["tcp://127.0.0.1:5557", false],
		["tcp://[::1]:5557", true],
		["tcp://[fe80::1%lo]:5557", true],
		["tcp://127.0.0.1:0;127.0.0.2:5557", false],
		["ipc:///tmp/engine", false],
		["inproc://engine", false],
	])("are not needed for %s", (endpoint, ipv6) => {
		expect(Names.fixed(endpoint)).toEqual({ endpoint, ipv6 });
	});

	it("keep the source address before a host name", async () => {
		const names = new Names(async () => "127.0.0.2");
		const endpoint = "tcp://127.0.0.1:0;engine.example:5557";
		expect(Names.fixed(endpoint)).toBeUndefined();
		expect((await names.find(endpoint)).endpoint).toBe(
			"tcp://127.0.0.1:0;127.0.0.2:5557",
		);
	});
});
