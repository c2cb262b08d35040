/** Code of the caller that fails within a channel, a watch or a listener changes nothing for anybody else. */
import { connect } from "@nats-io/transport-node";
import type { Logger } from "kvcr-core";
import { afterEach, expect, it } from "vitest";
import {
	listenForHints,
	NatsControlChannel,
	type NatsControlChannelOptions,
	watchPeers,
} from "../src/index.js";
import {
	describeWithServer,
	NatsServer,
	until,
} from "./support/nats-server.js";

const fail = () => {
	throw new Error("failed on purpose");
};
const failLater = async () => fail();

const loggerOf = (method: () => unknown) =>
	({ debug: method, info: method, warn: method, error: method }) as Logger;

describeWithServer("failing code of the caller", () => {
	const ends: (() => unknown)[] = [];
	afterEach(async () => {
		for (const end of ends.splice(0).reverse()) await end();
	});

	async function server() {
		const nats = await NatsServer.start();
		ends.push(() => nats.stop());
		return nats;
	}

	async function open(
		nats: NatsServer,
		options: NatsControlChannelOptions,
		receive: (message: Uint8Array) => void = () => {},
	) {
		const channel = new NatsControlChannel({
			connect: { servers: nats.address },
			...options,
		});
		ends.push(() => channel.close());
		await channel.start(receive);
		return channel;
	}

	it.each([
		["throws", fail],
		["rejects", failLater],
	])(
		"a receiver and a logger that fail keep getting messages (%s)",
		async (_, code) => {
			const nats = await server();
			let got = 0;
			const sender = await open(nats, { peer: "a" });
			const receiver = await open(
				nats,
				{ peer: "b", logger: loggerOf(code) },
				() => {
					got += 1;
					return code();
				},
			);
			for (let i = 1; i <= 5; i += 1) {
				sender.send("nats://kvcr.b", Uint8Array.of(i));
				await until("the message", () => got === i);
			}
			await until(
				"the count",
				() => receiver.stats().dropped.receiver_failed === 5,
			);
			expect(receiver.stats().connected).toBe(true);
		},
	);

	it.each([
		["throws", fail],
		["rejects", failLater],
	])(
		"a logger that fails when a server is away does not keep the channel from coming back (%s)",
		async (_, code) => {
			const nats = await server();
			const channel = await open(nats, {
				connect: { servers: nats.address, reconnect: false },
				logger: loggerOf(code),
			});
			await nats.kill();
			await until("the loss", () => !channel.stats().connected);
			// Long enough for an attempt that fails.
			await new Promise((resolve) => setTimeout(resolve, 600));
			await nats.run();
			await until("the return", () => channel.stats().connected);
		},
	);

	it.each([
		["throws", fail],
		["rejects", failLater],
	])("onChange is told of the next peer too (%s)", async (_, code) => {
		const nats = await server();
		const here = await open(nats, { peer: "here" });
		const seen: string[] = [];
		const watch = await watchPeers(here, {
			onChange: (_change, { peer }) => {
				seen.push(peer);
				return code();
			},
		});
		ends.push(() => watch.close());
		await open(nats, { peer: "one" });
		await open(nats, { peer: "two" });
		await until("both", () => seen.includes("one") && seen.includes("two"));
		await until(
			"the count",
			() => watch.dropped().listener_failed === seen.length,
		);
	});

	it("submit may fail with a reason that has no text", async () => {
		const nats = await server();
		const listener = await listenForHints(await open(nats, { peer: "w" }), {
			submit: () => Promise.reject(Object.create(null)),
		});
		ends.push(() => listener.close());
		const router = await connect({ servers: nats.address });
		ends.push(() => router.close());
		const answer = await router.request("kvcr.w.hints", "x", {
			timeout: 2_000,
		});
		expect(answer.string()).toBe("-ERR {}");
		expect(listener.stats().refused).toEqual({ rejected: 1 });
	});
});
