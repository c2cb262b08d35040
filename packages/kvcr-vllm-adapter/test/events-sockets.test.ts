/** The sockets of the event intake: what they do with replays that never end, with failures, and within worker threads. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { encode } from "@msgpack/msgpack";
import {
	InvalidArgumentError,
	InvalidEndpointError,
	type RouterHash,
	silentLogger,
} from "kvcr-core";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Publisher, Router } from "zeromq";
import {
	KvEventSubscriber,
	type KvEventSubscriberOptions,
	rankPublishers,
} from "../src/events/index.js";
import { ReverseHashMap } from "../src/index.js";
import { sequence } from "./support/sequence.js";

const closers: (() => unknown)[] = [];
afterEach(async () => {
	for (const close of closers.splice(0).reverse()) await close();
});

function payload(seq: number): Uint8Array {
	const event = {
		type: "BlockStored",
		block_hashes: [Buffer.alloc(32, seq + 1)],
	};
	return encode([seq, [event]]);
}

/** A publisher with a replay socket that answers as `answer` says. */
async function publisher(
	answer: (router: Router, peer: Buffer, seq: number) => Promise<unknown>,
) {
	const pub = new Publisher({ linger: 0 });
	await pub.bind("tcp://127.0.0.1:*");
	const router = new Router({ linger: 0, mandatory: true });
	await router.bind("tcp://127.0.0.1:*");
	const requests: number[] = [];
	const serving = (async () => {
		for await (const [peer, , seq] of router) {
			const from = Number((seq as Buffer).readBigUInt64BE());
			requests.push(from);
			answer(router, peer as Buffer, from).catch(() => {});
		}
	})();
	closers.push(async () => {
		pub.close();
		router.close();
		await serving;
	});
	const [endpoint, replayEndpoint] = [pub.lastEndpoint, router.lastEndpoint];
	return {
		endpoint: endpoint as string,
		replayEndpoint: replayEndpoint as string,
		requests,
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

/** Sends until the subscription has been made. */
async function reach(
	source: { send(seq: number): Promise<void> },
	arrived: () => boolean,
	seq: () => number,
): Promise<void> {
	await expect
		.poll(
			async () => {
				await source.send(seq());
				return arrived();
			},
			{ timeout: 5000, interval: 10 },
		)
		.toBe(true);
}

/** Answers with batches until the other end is gone. */
async function endless(router: Router, peer: Buffer, from: number) {
	for (let seq = from; ; seq = Math.min(seq + 1, 50))
		await router.send([peer, "", "", sequence(seq), payload(seq)]);
}

describe("a replay without end", () => {
	it("is over at its deadline, and the live stream goes on", async () => {
		const source = await publisher(endless);
		const { map, subscriber } = await subscribe([source], {
			replayDeadlineMs: 300,
		});
		let seq = 100;
		await reach(
			source,
			() => source.requests.length > 0,
			() => seq++,
		);
		const last = Buffer.alloc(8, seq + 1).readBigUInt64BE() as RouterHash;
		await source.send(seq);
		await expect
			.poll(() => map.status(last), { timeout: 10_000 })
			.toBe("unique");
		// Once for what came before, and once more for what the first answers did not bring.
		expect(source.requests.length).toBeLessThanOrEqual(2);
		await subscriber.close();
	});

	it("does not hold up the close, after which the map gets nothing more", async () => {
		const source = await publisher(endless);
		const { map, subscriber } = await subscribe([source]);
		let seq = 100;
		await reach(
			source,
			() => source.requests.length > 0,
			() => seq++,
		);
		const start = performance.now();
		await subscriber.close();
		expect(performance.now() - start).toBeLessThan(1000);
		await source.send(seq);
		await new Promise((resolve) => setTimeout(resolve, 50));
		while (map.sweep(1000));
		expect(map.size).toBe(0);
	});
});

describe("streams that contradict each other", () => {
	it("ask for a few replays a second, not for one per batch", async () => {
		const source = await publisher(async () => {});
		const { subscriber } = await subscribe([source]);
		let seq = 100;
		const batches = () => subscriber.stats().get(source.endpoint)?.batches ?? 0;
		await reach(
			source,
			() => batches() > 0,
			() => seq++,
		);
		const start = performance.now();
		for (let i = 0; i < 300; i++) {
			await source.send(10_000 + i);
			await source.send(20_000 - i);
		}
		await expect.poll(batches, { timeout: 5000 }).toBeGreaterThan(600);
		const seconds = (performance.now() - start) / 1000;
		expect(source.requests.length).toBeLessThan(3 + 10 * seconds);
	});
});

describe("a subscription that cannot start", () => {
	const unusable = `ipc:///${"a".repeat(200)}`;

	it("leaves no socket open and can be closed, or started again", async () => {
		const source = await publisher(async () => {});
		const subscriber = new KvEventSubscriber({
			map: new ReverseHashMap(),
			publishers: [source, { endpoint: unusable }],
			logger: silentLogger,
		});
		await expect(subscriber.start()).rejects.toMatchObject({
			code: "ERR_KVCR_CONNECT_FAILED",
			endpoint: unusable,
			message: expect.stringContaining(unusable),
		});
		expect(subscriber.stats().size).toBe(0);
		await expect(subscriber.start()).rejects.not.toThrow(/already/);
		await subscriber.close();
	});

	it("goes on without replays where only their socket cannot be had", async () => {
		const source = await publisher(async () => {});
		const { map, subscriber } = await subscribe([
			{ endpoint: source.endpoint, replayEndpoint: unusable },
		]);
		let seq = 100;
		await reach(
			source,
			() => map.size > 0,
			() => seq++,
		);
		await subscriber.close();
	});

	it("is refused when made, for addresses and topics that cannot be any", () => {
		const make = (...publishers: unknown[]) =>
			new KvEventSubscriber({
				map: new ReverseHashMap(),
				publishers: publishers as never,
			});
		for (const endpoint of [
			"tcp://127.0.0.1",
			"tcp://127.0.0.1:0",
			"tcp://127.0.0.1:65536",
			"tcp://127.0.0.1:5557/topic",
			"tcp://*:5557",
			"ipc://",
			5557,
			undefined,
		]) {
			expect(() => make({ endpoint })).toThrow(InvalidEndpointError);
		}
		expect(() => make(null)).toThrow(InvalidEndpointError);
		const endpoint = "tcp://[::1]:5557";
		expect(() => make({ endpoint, replayEndpoint: "5558" })).toThrow(
			InvalidEndpointError,
		);
		expect(() => make({ endpoint, topic: 5 })).toThrow(InvalidArgumentError);
		expect(() => make({ endpoint }, { endpoint })).toThrow(
			/each endpoint once/,
		);
		expect(() => make({ endpoint, topic: "kv" })).not.toThrow();
	});
});

describe("a subscription without usable arguments", () => {
	it("is refused with what is expected", () => {
		for (const options of [undefined, null, 5])
			expect(() => new KvEventSubscriber(options as never)).toThrow(
				InvalidArgumentError,
			);
		for (const first of [undefined, null, "tcp://127.0.0.1:5557"])
			expect(() => rankPublishers(first as never, 2)).toThrow(
				InvalidArgumentError,
			);
		expect(() => rankPublishers({} as never, 2)).toThrow(InvalidEndpointError);
	});

	it("is refused where a map cannot credit that many publishers", () => {
		const first = { endpoint: "tcp://127.0.0.1:5557" };
		const publishers = rankPublishers(first, 27);
		const map = new ReverseHashMap();
		expect(() => new KvEventSubscriber({ map, publishers })).not.toThrow();
		expect(() => rankPublishers(first, 28)).toThrow(InvalidArgumentError);
		publishers.push({ endpoint: "tcp://127.0.0.1:6000" });
		expect(() => new KvEventSubscriber({ map, publishers })).toThrow(
			InvalidArgumentError,
		);
	});

	it("says what to install where zeromq cannot be loaded", async () => {
		vi.doMock("zeromq", () => {
			throw new Error("not installed");
		});
		vi.resetModules();
		try {
			const events = await import("../src/events/index.js");
			const subscriber = new events.KvEventSubscriber({
				map: new ReverseHashMap(),
				publishers: [{ endpoint: "tcp://127.0.0.1:5557" }],
			});
			await expect(subscriber.start()).rejects.toMatchObject({
				name: "ZeromqUnavailableError",
				code: "ERR_KVCR_ZEROMQ_UNAVAILABLE",
				message: expect.stringContaining("npm install zeromq"),
			});
		} finally {
			vi.doUnmock("zeromq");
			vi.resetModules();
		}
	});
});

it("lets worker threads end that close in the middle of a replay", async () => {
	const script = fileURLToPath(
		new URL("./children/events-in-workers.ts", import.meta.url),
	);
	const child = spawn(
		process.execPath,
		[
			...["--conditions=kvcr-source", "--import", import.meta.resolve("tsx")],
			script,
		],
		{
			stdio: ["ignore", "pipe", "pipe"],
			timeout: 50_000,
			killSignal: "SIGKILL",
		},
	);
	let output = "";
	child.stdout.on("data", (data) => {
		output += String(data);
	});
	child.stderr.on("data", (data) => {
		output += String(data);
	});
	const end = await new Promise((resolve) =>
		child.on("close", (code, signal) => resolve(signal ?? code)),
	);
	expect({ end, output }).toEqual({ end: 0, output: "ended 6\n" });
}, 60_000);
