/** Hint envelopes over a subject: a bad one is counted and answered, and never stops the listener. */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { connect as connectOld } from "nats";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import {
	type ListenForHintsOptions,
	listenForHints,
	NatsControlChannel,
} from "../src/index.js";
import {
	describeWithServer,
	NatsServer,
	until,
} from "./support/nats-server.js";

describeWithServer("hints over a subject", () => {
	let nats: NatsServer;
	let router: NatsConnection;
	const ends: (() => Promise<unknown>)[] = [];

	beforeAll(async () => {
		nats = await NatsServer.start("max_payload: 2MB");
		router = await connect({ servers: nats.address });
	});
	afterEach(async () => {
		for (const end of ends.splice(0).reverse()) await end();
	});
	afterAll(async () => {
		await router?.close();
		await nats?.stop();
	});

	async function worker(options: Partial<ListenForHintsOptions> = {}) {
		const channel = new NatsControlChannel({
			peer: "w1",
			connect: { servers: nats.address },
		});
		ends.push(() => channel.close());
		await channel.start(() => {});
		const taken: string[] = [];
		const listener = await listenForHints(channel, {
			submit: (text) => taken.push(text),
			...options,
		});
		ends.push(() => listener.close());
		return { channel, listener, taken };
	}

	const ask = async (payload: string | Uint8Array, subject = "kvcr.w1.hints") =>
		(await router.request(subject, payload, { timeout: 2_000 })).string();

	it("submits the text unchanged, 64-bit numbers included, in order", async () => {
		const { listener, taken } = await worker();
		const texts = [
			'{"actions":[{"payload":{"block_hashes":[13835058055282163712]}}]}',
			'{"x":"é"}',
			"third",
		];
		for (const text of texts) router.publish("kvcr.w1.hints", text);
		await until("all envelopes", () => taken.length === 3);
		expect(taken).toEqual(texts);
		await until("their count", () => listener.stats().accepted === 3);
	});

	it("answers a request with +OK, or -ERR and the reason", async () => {
		const { listener, taken } = await worker({
			submit: (text) => {
				if (text === "bad") throw new Error("actions[0].payload.mode is wrong");
				if (text === "later") return Promise.reject(new Error("refused later"));
				return undefined;
			},
		});
		expect(await ask("good")).toBe("+OK");
		expect(await ask("bad")).toBe("-ERR actions[0].payload.mode is wrong");
		expect(await ask("later")).toBe("-ERR refused later");
		expect(await ask("good")).toBe("+OK");
		expect(listener.stats()).toMatchObject({
			accepted: 2,
			refused: { rejected: 2 },
		});
		expect(taken).toEqual([]);
	});

	it("refuses what is not text, or too large, without submitting it", async () => {
		const { taken, listener } = await worker();
		expect(await ask(Uint8Array.of(0xff, 0xfe))).toMatch(/^-ERR .*UTF-8/);
		expect(await ask(new Uint8Array((1 << 20) + 1))).toMatch(/^-ERR .*1 MiB/);
		expect(await ask("fine")).toBe("+OK");
		expect(taken).toEqual(["fine"]);
		expect(listener.stats().refused).toEqual({ malformed: 2 });
	});

	it("bounds a reason", async () => {
		await worker({
			submit: () => {
				throw new Error("x".repeat(100_000));
			},
		});
		expect((await ask("any")).length).toBeLessThan(600);
	});

	it("bounds envelopes that are still being taken", async () => {
		let release = () => {};
		const gate = new Promise<void>((resolve) => {
			release = resolve;
		});
		const { listener } = await worker({ submit: () => gate, maxPending: 2 });
		router.publish("kvcr.w1.hints", "1");
		router.publish("kvcr.w1.hints", "2");
		expect(await ask("3")).toMatch(/^-ERR too many/);
		release();
		await until("room", () => listener.stats().accepted === 2);
		expect(await ask("4")).toBe("+OK");
	});

	it("publishes no answer outside the inboxes", async () => {
		const { listener, channel } = await worker();
		const seen: string[] = [];
		const tap = router.subscribe(">", {
			callback: (_error, message) => {
				seen.push(message.subject);
			},
		});
		await router.flush();
		for (const reply of ["kvcr.w1", "kvcr.w2", "_INBOXX.a", "_INBOX", "$SYS.x"])
			router.publish("kvcr.w1.hints", "x", { reply });
		expect(await ask("last")).toBe("+OK");
		tap.unsubscribe();
		expect(listener.stats().unanswered).toEqual({ reply_subject: 5 });
		expect(
			seen.filter(
				(s) =>
					!s.startsWith("_INBOX.") &&
					s !== "kvcr.w1.hints" &&
					!s.startsWith("kvcr._presence"),
			),
		).toEqual([]);
		expect(channel.stats().received).toBe(0);
	});

	it("ends with close, and leaves the channel open", async () => {
		const { channel, listener, taken } = await worker();
		await listener.close();
		router.publish("kvcr.w1.hints", "late");
		await router.flush();
		expect(channel.send(channel.endpoint ?? "", Uint8Array.of(1))).toBe(true);
		await until("the channel", () => channel.stats().received === 1);
		expect(taken).toEqual([]);
	});

	it("refuses subjects with wildcards, and channels that are not started", async () => {
		const submit = () => {};
		for (const subject of ["kvcr.>", "kvcr.*", "a b", "", "a..b", "a\r\nb"])
			await expect(
				listenForHints(router, { subject, submit }),
			).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
		await expect(listenForHints(router, { submit })).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ARGUMENT",
		});
		await expect(
			listenForHints(new NatsControlChannel(), { submit }),
		).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
	});

	it("works over a caller's connection of either client, which stays open", async () => {
		const old = await connectOld({ servers: nats.address });
		const modern = await connect({ servers: nats.address });
		ends.push(
			() => old.close(),
			() => modern.close(),
		);
		for (const connection of [old, modern]) {
			const taken: string[] = [];
			const listener = await listenForHints(connection, {
				subject: "hints.here",
				submit: (text) => taken.push(text),
			});
			expect(await ask("hello", "hints.here")).toBe("+OK");
			expect(taken).toEqual(["hello"]);
			await listener.close();
			expect(connection.isClosed()).toBe(false);
		}
	});

	it("goes on after the server was restarted", async () => {
		const own = await NatsServer.start();
		ends.push(() => own.stop());
		const channel = new NatsControlChannel({
			peer: "w9",
			connect: { servers: own.address },
		});
		ends.push(() => channel.close());
		await channel.start(() => {});
		const taken: string[] = [];
		await listenForHints(channel, { submit: (text) => taken.push(text) });
		await own.kill();
		await own.run();
		const client = await connect({ servers: own.address });
		ends.push(() => client.close());
		await until("an envelope", () => {
			client.publish("kvcr.w9.hints", "again");
			return taken.includes("again");
		});
	});
});
