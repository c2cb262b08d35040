import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { encodeKey } from "../src/curve.js";
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

async function open(options: ZmqControlChannelOptions) {
	const channel = new ZmqControlChannel(options);
	ends.push(() => channel.close());
	const got: string[] = [];
	await channel.start((message) => got.push(Buffer.from(message).toString()));
	return { channel, endpoint: channel.endpoint as string, got };
}

const [a, b, c] = [
	generateCurveKeys(),
	generateCurveKeys(),
	generateCurveKeys(),
];

describe("CURVE", () => {
	it("lets listed keys talk, both ways", async () => {
		const keyOf = new Map<string, string>();
		const serverKey = (endpoint: string) => keyOf.get(endpoint);
		const left = await open({
			curve: { ...a, allow: [b.publicKey], serverKey },
		});
		const right = await open({
			curve: { ...b, allow: [a.publicKey], serverKey },
		});
		expect(left.channel.send(right.endpoint, Buffer.from("x"))).toBe(false);
		expect(left.channel.stats().refused).toEqual({ bad_endpoint: 1 });
		keyOf.set(right.endpoint, b.publicKey).set(left.endpoint, a.publicKey);
		left.channel.send(right.endpoint, Buffer.from("to right"));
		right.channel.send(left.endpoint, Buffer.from("to left"));
		await until("both", () => left.got.length + right.got.length === 2);
		expect([left.got, right.got]).toEqual([["to left"], ["to right"]]);
	});

	it("turns away a key that is not listed, and counts it", async () => {
		const target = await open({
			curve: { ...a, allow: [b.publicKey], serverKey: a.publicKey },
		});
		const stranger = await open({
			curve: { ...c, allow: [], serverKey: a.publicKey },
		});
		stranger.channel.send(target.endpoint, Buffer.from("let me in"));
		await until(
			"the refusal",
			() => (target.channel.stats().dropped.unknown_key ?? 0) > 0,
		);
		const friend = await open({
			curve: { ...b, allow: [], serverKey: a.publicKey },
		});
		friend.channel.send(target.endpoint, Buffer.from("hello"));
		await until("the friend", () => target.got.length > 0);
		expect(target.got).toEqual(["hello"]);
	});

	it("takes nothing from peers without CURVE, or with the wrong server key", async () => {
		const target = await open({
			curve: { ...a, allow: [b.publicKey], serverKey: a.publicKey },
		});
		const plain = await open({});
		plain.channel.send(target.endpoint, Buffer.from("plain"));
		const wrong = await open({
			curve: { ...b, allow: [], serverKey: c.publicKey },
		});
		wrong.channel.send(target.endpoint, Buffer.from("wrong"));
		const friend = await open({
			curve: { ...b, allow: [], serverKey: a.publicKey },
		});
		friend.channel.send(target.endpoint, Buffer.from("hello"));
		await until("the friend", () => target.got.length > 0);
		await new Promise((resolve) => setTimeout(resolve, 300));
		expect(target.got).toEqual(["hello"]);
	});

	it("sends nothing to an impostor at a peer's endpoint", async () => {
		const impostor = await open({});
		const sender = await open({
			curve: { ...b, allow: [], serverKey: a.publicKey },
		});
		sender.channel.send(impostor.endpoint, Buffer.from("secret"));
		await new Promise((resolve) => setTimeout(resolve, 300));
		expect(impostor.got).toEqual([]);
	});

	it("refuses malformed keys without showing them", () => {
		const secretKey = `${a.secretKey.slice(0, 39)}~`;
		for (const curve of [
			{ ...a, secretKey, allow: [], serverKey: a.publicKey },
			{ ...a, allow: ["short"], serverKey: a.publicKey },
			{ ...a, allow: [], serverKey: "" },
		])
			try {
				new ZmqControlChannel({ curve });
				expect.unreachable();
			} catch (error) {
				expect(error).toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
				expect(String(error)).not.toContain(secretKey);
			}
	});

	it("makes no socket for a peer whose key is none, whatever `serverKey` does", async () => {
		const answers: (() => unknown)[] = [
			() => b.publicKey.slice(1),
			() => null,
			() => Promise.resolve(b.publicKey),
			() => {
				throw new Error("no such peer");
			},
		];
		let answer = answers[0];
		const friend = await open({
			curve: { ...b, allow: [a.publicKey], serverKey: a.publicKey },
		});
		const { channel } = await open({
			curve: {
				...a,
				allow: [],
				serverKey: (endpoint) =>
					(endpoint === friend.endpoint ? b.publicKey : answer?.()) as string,
			},
		});
		// More than a context has sockets.
		for (let i = 0; i < 1_200; i += 1) {
			answer = answers[i % answers.length];
			expect(channel.send("tcp://127.0.0.1:1", Buffer.from("x"))).toBe(false);
		}
		expect(channel.stats().refused).toEqual({ bad_key: 1_200 });
		expect(channel.send(friend.endpoint, Buffer.from("x"))).toBe(true);
		await until("the message", () => friend.got.length === 1);
	});

	it("keeps no peer when `serverKey` closes the channel", async () => {
		const { channel } = await open({
			curve: {
				...a,
				allow: [],
				serverKey: () => {
					void channel.close();
					return b.publicKey;
				},
			},
		});
		expect(channel.send("tcp://127.0.0.1:1", Buffer.from("x"))).toBe(false);
		expect(channel.peerCount).toBe(0);
		expect(channel.stats()).toMatchObject({ sent: 0, refused: { closed: 1 } });
	});

	it("has one sender for a peer that `serverKey` sent to itself", async () => {
		let asked = 0;
		const friend = await open({
			curve: { ...b, allow: [a.publicKey], serverKey: a.publicKey },
		});
		const { channel } = await open({
			curve: {
				...a,
				allow: [],
				serverKey: (endpoint) => {
					asked += 1;
					if (asked === 1) channel.send(endpoint, Buffer.from("inner"));
					return b.publicKey;
				},
			},
		});
		channel.send(friend.endpoint, Buffer.from("outer"));
		await until("both", () => friend.got.length === 2);
		expect(friend.got).toEqual(["inner", "outer"]);
		expect(channel.peerCount).toBe(1);
	});

	it("writes keys as libzmq does", () => {
		// The test vector of ZeroMQ RFC 32.
		const bytes = Uint8Array.of(0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b);
		expect(encodeKey(bytes)).toBe("HelloWorld");
		expect(encodeKey(new Uint8Array(4).fill(0xff))).toBe("%nSc0");
	});
});
