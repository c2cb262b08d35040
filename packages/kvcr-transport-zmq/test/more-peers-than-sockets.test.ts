/** More peers than libzmq has sockets. In a file of its own: the limit is that of the process. */
import { afterEach, expect, it } from "vitest";
import { context } from "zeromq";
import {
	ZmqControlChannel,
	type ZmqControlChannelOptions,
} from "../src/index.js";

context.maxSockets = 40;

const channels: ZmqControlChannel[] = [];
afterEach(async () => {
	await Promise.all(channels.splice(0).map((channel) => channel.close()));
});

async function open(options: ZmqControlChannelOptions = {}) {
	const channel = new ZmqControlChannel(options);
	channels.push(channel);
	await channel.start(() => {});
	return channel;
}

const x = Uint8Array.of(1);
const absent = (i: number) => `tcp://127.1.${i >> 8}.${i & 255}:1`;

/** Sends until it is accepted. */
async function sent(channel: ZmqControlChannel, endpoint: string) {
	const end = performance.now() + 8_000;
	while (!channel.send(endpoint, x)) {
		if (performance.now() > end) throw new Error(`${endpoint} is refused`);
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}

it("a channel for many peers has sockets of its own and leaves those of the process to others", async () => {
	const channel = await open({ maxPeers: 1_200 });
	for (let i = 0; i < 1_300; i += 1) await sent(channel, absent(i));
	expect(channel.peerCount).toBe(1_200);
	await sent(channel, (await open()).endpoint as string);
	await sent(await open(), channel.endpoint as string);
	await expect.poll(() => channel.stats().received).toBe(1);
});

it("a new peer takes the place of another one when no socket is left, and the refusal says why", async () => {
	const [channel, peer] = [await open(), await open()];
	for (let i = 0; i < 100; i += 1) channel.send(absent(i), x);
	const { refused } = channel.stats();
	expect(Object.keys(refused)).toEqual(["no_socket"]);
	// A burst costs no more than a peer or two.
	expect(channel.peerCount).toBeGreaterThan(30);
	await sent(channel, peer.endpoint as string);
	await expect.poll(() => peer.stats().received).toBe(1);
	await sent(channel, absent(1_000));
});
