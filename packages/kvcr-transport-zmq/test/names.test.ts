import { ManualClock } from "kvcr-core/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
	type Lookup,
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
	const got: string[] = [];
	await channel.start((message) =>
		got.push(Buffer.from(message).toString("latin1")),
	);
	const port = Number(channel.endpoint?.split(":").at(-1));
	const send = (to: string, text: string) =>
		channel.send(to, Buffer.from(text));
	return { channel, endpoint: channel.endpoint as string, port, got, send };
}

/** A look-up whose answers a test gives, in the order of asking. */
function scripted() {
	const asked: string[] = [];
	const open: { resolve(address: string): void; reject(): void }[] = [];
	const lookup: Lookup = (host) => {
		asked.push(host);
		return new Promise((resolve, reject) => {
			open.push({ resolve, reject: () => reject(new Error("unknown host")) });
		});
	};
	const answer = async (address: string | undefined) => {
		await until("a look-up", () => open.length > 0);
		const one = open.shift();
		if (address === undefined) one?.reject();
		else one?.resolve(address);
		await new Promise((resolve) => setImmediate(resolve));
	};
	return { lookup, asked, answer, open };
}

it("a name that takes long holds up nobody; what was sent to it goes out in order once it is known", async () => {
	const { lookup, asked, answer } = scripted();
	const sender = await open({ lookup });
	const [slow, healthy] = [await open(), await open()];
	const name = `tcp://slow.example:${slow.port}`;
	for (const text of ["a", "b", "c"])
		expect(sender.send(name, text)).toBe(true);
	for (let i = 0; i < 20; i += 1) {
		expect(sender.send(healthy.endpoint, `${i}`)).toBe(true);
		await until("a healthy peer's message", () => healthy.got.length === i + 1);
	}
	expect([slow.got, asked]).toEqual([[], ["slow.example"]]);
	await answer("127.0.0.1");
	await until("the messages", () => slow.got.length === 3);
	sender.send(name, "d");
	await until("one more", () => slow.got.length === 4);
	expect(slow.got).toEqual(["a", "b", "c", "d"]);
	expect(asked).toEqual(["slow.example"]);
});

it("a peer that moved is found again, and one that did not keeps its connection", async () => {
	const { lookup, asked, answer } = scripted();
	const clock = new ManualClock();
	const sender = await open({ lookup, clock });
	const before = await open({ host: "127.0.0.1" });
	const after = await open({ host: "127.0.0.2", port: before.port });
	const name = `tcp://pod.example:${before.port}`;
	sender.send(name, "1");
	await answer("127.0.0.1");
	await until("the first", () => before.got.length === 1);
	clock.advance(4_999);
	sender.send(name, "2");
	clock.advance(1);
	sender.send(name, "3");
	await answer("127.0.0.1");
	await until("the same place", () => before.got.length === 3);
	// The system does not know: where it was is as good as anywhere.
	clock.advance(5_000);
	sender.send(name, "4");
	await answer(undefined);
	await until("still the same place", () => before.got.length === 4);
	clock.advance(5_000);
	sender.send(name, "5");
	await answer("127.0.0.2");
	await until("arrival somewhere", () => before.got.length === 5);
	sender.send(name, "6");
	await until("the new place", () => after.got.length === 1);
	expect([before.got.length, after.got, asked.length]).toEqual([5, ["6"], 4]);
	expect(sender.channel.peerCount).toBe(1);
});

it("a name that leads nowhere is tried again every second, until its sender is gone", async () => {
	const { lookup, asked, answer } = scripted();
	const clock = new ManualClock();
	const sender = await open({ lookup, clock, peerIdleMs: 10_000 });
	const peer = await open();
	const name = `tcp://later.example:${peer.port}`;
	sender.send(name, "1");
	await answer(undefined);
	clock.advance(1_000);
	await answer("not an address");
	sender.send(name, "2");
	expect(asked).toHaveLength(2);
	clock.advance(1_000);
	await answer("127.0.0.1");
	await until("both", () => peer.got.length === 2);
	expect(peer.got).toEqual(["1", "2"]);

	sender.send("tcp://never.example:1", "x");
	await answer(undefined);
	expect(clock.pending).toBe(2);
	clock.advance(9_000);
	expect(asked.at(-1)).toBe("never.example");
	const { length } = asked;
	await answer(undefined);
	clock.advance(20_000);
	expect([sender.channel.peerCount, clock.pending]).toEqual([0, 0]);
	expect(asked.length).toBe(length);
});

it("two names are looked up at a time, and none that nobody waits for any more", async () => {
	const { lookup, asked, answer, open: waiting } = scripted();
	const sender = await open({ lookup, maxPeers: 3 });
	// For each of the last three, one of the first is dropped.
	for (const host of ["a", "b", "c", "d", "e", "f"])
		sender.send(`tcp://${host}:1`, "x");
	expect([asked.length, waiting.length]).toEqual([2, 2]);
	await answer(undefined);
	expect([asked, waiting.length]).toEqual([["a", "b", "d"], 2]);
	await answer(undefined);
	expect([asked, waiting.length]).toEqual([["a", "b", "d", "e"], 2]);
	await sender.channel.close();
	await answer(undefined);
	await answer(undefined);
	expect([asked, waiting.length]).toEqual([["a", "b", "d", "e"], 0]);
});

it("a name may lead to an IPv6 address", async () => {
	const sender = await open({ lookup: async () => "::1" });
	const peer = await open({ host: "::1" });
	sender.send(`tcp://six.example:${peer.port}`, "x");
	await until("the message", () => peer.got.length === 1);
});

it("by default the system is asked, for IPv4 first", async () => {
	const sender = await open();
	const peer = await open();
	sender.send(`tcp://localhost:${peer.port}`, "x");
	await until("the message", () => peer.got.length === 1);
	expect(() => new ZmqControlChannel({ lookup: 7 as never })).toThrow(
		expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT" }),
	);
});

it("a channel that closes while it waits for a name does so in its time", async () => {
	const sender = await open({ lookup: () => new Promise(() => {}) });
	sender.send("tcp://silent.example:1", "x");
	const startedAt = performance.now();
	await sender.channel.close();
	expect(performance.now() - startedAt).toBeLessThan(2_000);
});

it("a look-up that closes the channel leaves no peer", async () => {
	const sender = await open({
		lookup: () => {
			void sender.channel.close();
			return Promise.resolve("127.0.0.1");
		},
	});
	expect(sender.send("tcp://some.example:1", "x")).toBe(false);
	expect(sender.channel.peerCount).toBe(0);
	expect(sender.channel.stats()).toMatchObject({
		sent: 0,
		refused: { closed: 1 },
	});
});

describe("look-ups that never end", () => {
	it("hold up other names for two seconds, and are given up after ten", async () => {
		const clock = new ManualClock();
		const asked: string[] = [];
		const sender = await open({
			clock,
			lookup: (host) => {
				asked.push(host);
				return host.startsWith("dead")
					? new Promise(() => {})
					: Promise.resolve("127.0.0.1");
			},
		});
		const peer = await open();
		sender.send("tcp://dead1:1", "x");
		sender.send("tcp://dead2:1", "x");
		sender.send(`tcp://good:${peer.port}`, "x");
		clock.advance(1_999);
		expect(asked).toEqual(["dead1", "dead2"]);
		clock.advance(1);
		await until("the message", () => peer.got.length === 1);
		clock.advance(8_000 + 1_000);
		expect(asked).toEqual(["dead1", "dead2", "good", "dead1", "dead2"]);
		await sender.channel.close();
		expect(clock.pending).toBe(0);
	});

	it("may answer late, and are not begun again before that", async () => {
		const { lookup, asked, answer } = scripted();
		const clock = new ManualClock();
		const sender = await open({ lookup, clock });
		const peer = await open();
		sender.send(`tcp://slow:${peer.port}`, "1");
		clock.advance(9_000);
		sender.send(`tcp://slow:${peer.port}`, "2");
		await answer("127.0.0.1");
		await until("both", () => peer.got.length === 2);
		expect(asked).toEqual(["slow"]);
	});

	it("are eight at most", async () => {
		const clock = new ManualClock();
		const { lookup, asked } = scripted();
		const sender = await open({ lookup, clock });
		for (let i = 0; i < 40; i += 1) sender.send(`tcp://h${i}:1`, "x");
		for (let i = 0; i < 9; i += 1) clock.advance(1_000);
		expect(asked).toHaveLength(8);
		for (let i = 0; i < 60; i += 1) clock.advance(1_000);
		expect(asked.length).toBeGreaterThan(40);
	});
});

it("names never asked about come before those that led nowhere", async () => {
	const { lookup, asked, answer } = scripted();
	const clock = new ManualClock();
	const sender = await open({ lookup, clock });
	sender.send("tcp://lost:1", "x");
	await answer(undefined);
	for (const host of ["a", "b"]) sender.send(`tcp://${host}:1`, "x");
	clock.advance(1_000);
	sender.send("tcp://new:1", "x");
	await answer(undefined);
	expect(asked).toEqual(["lost", "a", "b", "new"]);
	await answer(undefined);
	expect(asked.at(-1)).toBe("lost");
});
