/** Unusable arguments are refused with the name of the argument, and before anything is opened. */
import { describe, expect, it } from "vitest";
import {
	listenForHints,
	NatsControlChannel,
	watchPeers,
} from "../src/index.js";

const refusalOf = (argument: string) =>
	expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT", argument });

/** A connection that is never used: whoever subscribes on it has gone too far. */
const connection = {
	publish() {},
	subscribe() {
		throw new Error("subscribed before the arguments were checked");
	},
	flush: async () => {},
	close: async () => {},
	isClosed: () => false,
	async *status() {},
};

describe("misuse of the constructor", () => {
	it.each([
		["options", null],
		["options", "worker-1"],
		["connection", { connection: null }],
		["connection", { connection: {} }],
		["connection", { connection: "nats://127.0.0.1" }],
		["connect", { connect: null }],
		["connect", { connect: "127.0.0.1:4222" }],
		["connect", { connection, connect: {} }],
		["connectTimeoutMs", { connectTimeoutMs: 0 }],
		["maxQueuedMessages", { maxQueuedMessages: "many" }],
		["maxQueuedBytes", { maxQueuedBytes: 1 }],
		["maxQueuedMs", { maxQueuedMs: Number.NaN }],
		["drainTimeoutMs", { drainTimeoutMs: -1 }],
		["announceIntervalMs", { announceIntervalMs: 99 }],
		["logger", { logger: {} }],
		["logger", { logger: "loud" }],
		["clock", { clock: {} }],
	])("is a typed error: %s %j", (argument, options) => {
		expect(() => new NatsControlChannel(options as never)).toThrow(
			refusalOf(argument),
		);
	});
});

describe("misuse of a channel", () => {
	it.each([undefined, null, {}, "receive"])(
		"starts with a receiver or not at all: %j",
		async (receive) => {
			const channel = new NatsControlChannel();
			await expect(channel.start(receive as never)).rejects.toEqual(
				refusalOf("receive"),
			);
			await channel.close();
		},
	);

	it("sends bytes, and refuses anything else by its name", async () => {
		const published: unknown[] = [];
		const channel = new NatsControlChannel({
			connection: {
				...connection,
				publish: (_subject, payload) => void published.push(payload),
				subscribe: () => ({ unsubscribe() {}, isClosed: () => false }),
			},
			announceIntervalMs: 0,
		});
		await channel.start(() => {});
		const to = channel.endpoint as string;
		for (const message of [undefined, null, "text", 7, {}, [1]])
			expect(channel.send(to, message as never)).toBe(false);
		expect(channel.stats()).toMatchObject({
			sent: 0,
			refused: { not_bytes: 6 },
		});
		expect(channel.send(to, Uint8Array.of(1))).toBe(true);
		await channel.close();
		expect(published).toEqual([Uint8Array.of(1)]);
		expect(channel.send(to, "late" as never)).toBe(false);
		expect(channel.stats().refused).toEqual({ not_bytes: 6, closed: 1 });
	});
});

describe("misuse of listenForHints and watchPeers", () => {
	const submit = () => {};

	it.each([
		["source", null, { subject: "a", submit }],
		["source", "nats://127.0.0.1", { subject: "a", submit }],
		["source", {}, { subject: "a", submit }],
		["options", connection, undefined],
		["subject", connection, { submit }],
		["submit", connection, { subject: "a" }],
		["replyPrefix", connection, { subject: "a", submit, replyPrefix: ">" }],
		["maxPending", connection, { subject: "a", submit, maxPending: 0 }],
		["logger", connection, { subject: "a", submit, logger: {} }],
	])("hints: %s", async (argument, source, options) => {
		await expect(
			listenForHints(source as never, options as never),
		).rejects.toEqual(refusalOf(argument));
	});

	it.each([
		["source", undefined, {}],
		["source", 7, {}],
		["source", {}, {}],
		["options", connection, null],
		["maxPeers", connection, { maxPeers: 0 }],
		["onChange", connection, { onChange: {} }],
		["logger", connection, { logger: {} }],
		["clock", connection, { clock: {} }],
	])("presence: %s", async (argument, source, options) => {
		await expect(watchPeers(source as never, options as never)).rejects.toEqual(
			refusalOf(argument),
		);
	});
});
