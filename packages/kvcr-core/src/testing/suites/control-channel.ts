/** The contract of a `ControlChannel`, as tests. */
import assert from "node:assert/strict";
import {
	type ControlChannel,
	MAX_CONTROL_MESSAGE_BYTES,
} from "../../ports/control-channel.js";
import {
	DEFAULT_PATIENCE_MS,
	DEFAULT_QUIET_MS,
	eventually,
	hasCode,
	pause,
	type SuiteRunner,
	within,
} from "./runner.js";

/** What an implementer gives to {@link controlChannelSuite}. */
export interface ControlChannelFactory {
	/** Shown in test names. */
	readonly name: string;
	/**
	 * A channel with an address of its own, not started. With `endpoint`, the channel must end up at that endpoint, which an
	 * earlier channel of this factory had before it was closed: a restart.
	 */
	create(endpoint?: string): ControlChannel | Promise<ControlChannel>;
	/** An endpoint of this transport at which nobody listens. */
	absentEndpoint(): string | Promise<string>;
	/**
	 * Makes a channel that would advertise an address that names nobody in particular; it must fail with
	 * `InvalidEndpointError` here or in `start`. Leave out when the transport has no such addresses.
	 */
	createWildcard?(): ControlChannel | Promise<ControlChannel>;
	/** A channel without an address of its own, not started. Leave out when the transport has none. */
	createAddressless?(): ControlChannel | Promise<ControlChannel>;
	/** Endpoints that `send` must refuse; default: of other transports, and no endpoints at all. */
	readonly foreignEndpoints?: readonly string[];
	/** Small messages sent at once to one absent peer, of which at least one must be refused; default 200,000. */
	readonly floodMessages?: number;
	/** Time allowed for something to happen, in milliseconds; default 4000. */
	readonly patienceMs?: number;
	/** Time to watch for something that must not happen, in milliseconds; default 60. */
	readonly quietMs?: number;
}

/**
 * Declares the tests of the {@link ControlChannel} contract.
 *
 * ```ts
 * import { describe, it } from "vitest"; // or "node:test", or the globals of jest
 * controlChannelSuite({ describe, it }, { name: "mine", create: () => new MyChannel(), absentEndpoint: () => "my://nobody" });
 * ```
 */
export function controlChannelSuite(
	{ describe, it }: SuiteRunner,
	factory: ControlChannelFactory,
): void {
	const patience = factory.patienceMs ?? DEFAULT_PATIENCE_MS;
	const quiet = () => pause(factory.quietMs ?? DEFAULT_QUIET_MS);

	/** Runs a test with a maker of started channels and closes them all afterwards. */
	const test = (name: string, body: (rig: Rig) => Promise<void>) =>
		it(name, async () => {
			const rig = new Rig(factory, patience);
			try {
				await body(rig);
			} finally {
				await rig.end();
			}
		});

	describe(`ControlChannel contract: ${factory.name}`, () => {
		test("has a final endpoint once started", async (rig) => {
			const { channel } = await rig.open();
			assert.equal(typeof channel.endpoint, "string");
			assert.notEqual(channel.endpoint, "");
			assert.equal(channel.endpoint, channel.endpoint);
		});

		test("gives every channel an endpoint of its own", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			assert.notEqual(a.channel.endpoint, b.channel.endpoint);
		});

		test("refuses a second start, and a start after close", async (rig) => {
			const { channel } = await rig.open();
			await assert.rejects(
				channel.start(() => {}),
				hasCode("ERR_KVCR_ALREADY_STARTED"),
			);
			await channel.close();
			await assert.rejects(
				channel.start(() => {}),
				hasCode("ERR_KVCR_CLOSED"),
			);
			const never = await rig.make();
			await never.close();
			await assert.rejects(
				never.start(() => {}),
				hasCode("ERR_KVCR_CLOSED"),
			);
		});

		test("refuses to send before start", async (rig) => {
			const peer = await rig.open();
			const channel = await rig.make();
			assert.equal(channel.send(peer.endpoint, Uint8Array.of(1)), false);
			await channel.start(() => {});
			await quiet();
			assert.equal(peer.got.length, 0);
		});

		test("delivers bytes unchanged, from 1 byte to 1 MiB", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			const sizes = [1, 2, 255, 256, 65_537, MAX_CONTROL_MESSAGE_BYTES];
			const sent = sizes.map((size) => patterned(size));
			await rig.reach(a, b);
			for (const message of sent)
				assert.equal(a.channel.send(b.endpoint, message), true);
			await rig.until("all sizes", () => b.got.length === sizes.length);
			b.got.forEach((message, i) => {
				assert.ok(message instanceof Uint8Array);
				assert.equal(
					Buffer.compare(message, sent[i] as Uint8Array),
					0,
					`message of ${sizes[i]} bytes`,
				);
			});
		});

		test("gives the receiver bytes that are its own", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			await rig.reach(a, b);
			const message = patterned(64);
			a.channel.send(b.endpoint, message);
			await rig.until("the first copy", () => b.got.length === 1);
			b.got[0]?.fill(0xee);
			assert.deepEqual(message, patterned(64));
			a.channel.send(b.endpoint, message);
			await rig.until("the second copy", () => b.got.length === 2);
			assert.equal(Buffer.compare(b.got[1] as Uint8Array, patterned(64)), 0);
		});

		test("keeps the order of each sender, and delivers at most once", async (rig) => {
			const [a, b, target] = [
				await rig.open(),
				await rig.open(),
				await rig.open(),
			];
			await rig.reach(a, target);
			await rig.reach(b, target);
			const count = 1_000;
			for (let i = 0; i < count; i += 1) {
				assert.equal(a.channel.send(target.endpoint, numbered(1, i)), true);
				assert.equal(b.channel.send(target.endpoint, numbered(2, i)), true);
			}
			await rig.until("both bursts", () => target.got.length >= 2 * count);
			await quiet();
			for (const sender of [1, 2]) {
				const order = target.got.filter((m) => m[0] === sender).map(numberOf);
				assert.deepEqual(
					order,
					Array.from({ length: count }, (_, i) => i),
				);
			}
		});

		test("reaches itself, and never delivers inside send", async (rig) => {
			const a = await rig.open();
			await rig.reach(a, a);
			for (let i = 0; i < 20; i += 1) {
				const before = a.got.length;
				assert.equal(a.channel.send(a.endpoint, numbered(1, i)), true);
				assert.equal(a.got.length, before);
			}
			await rig.until("its own messages", () => a.got.length === 20);
		});

		test("refuses a message over 1 MiB and keeps working", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			await rig.reach(a, b);
			const before = refusals(a.channel);
			assert.equal(
				a.channel.send(
					b.endpoint,
					new Uint8Array(MAX_CONTROL_MESSAGE_BYTES + 1),
				),
				false,
			);
			assert.equal(refusals(a.channel), before + 1);
			assert.equal(a.channel.send(b.endpoint, Uint8Array.of(5)), true);
			await rig.until("the next message", () => b.got.length > 0);
			assert.deepEqual([...(b.got[0] as Uint8Array)], [5]);
		});

		test("refuses endpoints it cannot reach by its transport, without throwing", async (rig) => {
			const { channel } = await rig.open();
			const foreign = factory.foreignEndpoints ?? [
				"",
				"nonsense",
				"bogus://peer",
				"http://127.0.0.1:1/",
			];
			for (const endpoint of foreign)
				assert.equal(
					channel.send(endpoint, Uint8Array.of(1)),
					false,
					JSON.stringify(endpoint),
				);
			assert.ok(refusals(channel) >= foreign.length);
		});

		test("is not held up by a peer that is not there", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			await rig.reach(a, b);
			const absent = await factory.absentEndpoint();
			for (let i = 0; i < 100; i += 1) {
				const accepted = a.channel.send(absent, numbered(1, i));
				assert.equal(typeof accepted, "boolean");
				a.channel.send(b.endpoint, numbered(1, i));
			}
			await rig.until("messages to the other peer", () => b.got.length === 100);
		});

		test("bounds what it queues for one peer", async (rig) => {
			const a = await rig.open();
			const absent = await factory.absentEndpoint();
			const limit = factory.floodMessages ?? 200_000;
			let sent = 0;
			while (sent < limit && a.channel.send(absent, numbered(1, sent)))
				sent += 1;
			assert.ok(sent < limit, `${limit} messages were accepted at once`);
			assert.ok(refusals(a.channel) >= 1);
		});

		test("survives a receiver that throws", async (rig) => {
			const a = await rig.open();
			const seen: number[] = [];
			const b = await rig.make();
			await b.start((message) => {
				if (message[0] === 0) return;
				seen.push(message[0] as number);
				throw new Error("thrown by the receiver on purpose");
			});
			await rig.until("contact", () => {
				a.channel.send(b.endpoint as string, Uint8Array.of(0));
				return b.stats().received > 0;
			});
			for (const value of [1, 2, 3])
				a.channel.send(b.endpoint as string, Uint8Array.of(value));
			await rig.until("all messages", () => seen.length === 3);
			assert.deepEqual(seen, [1, 2, 3]);
		});

		test("slows a sender down without harm to another, and closes in the midst of that", async (rig) => {
			const channel = await rig.make();
			if (channel.slowDown === undefined) return;
			const slowDown = () => {
				for (let i = 0; i < 10; i += 1) channel.slowDown?.();
			};
			slowDown();
			const [honest, noisy] = [await rig.open(), await rig.open()];
			const got: Uint8Array[] = [];
			await channel.start((message) => {
				got.push(message);
				if (message[0] === 2) slowDown();
			});
			const endpoint = channel.endpoint as string;
			await rig.reach(honest, { channel, endpoint, got });
			await rig.reach(noisy, { channel, endpoint, got });
			const count = 300;
			for (let i = 0; i < count; i += 1) {
				noisy.channel.send(endpoint, numbered(2, i));
				assert.equal(honest.channel.send(endpoint, numbered(1, i)), true);
				if (i % 30 === 0) await pause(1);
			}
			const arrived = () => got.filter((message) => message[0] === 1);
			await rig.until("the others", () => arrived().length >= count);
			await quiet();
			assert.deepEqual(
				arrived().map(numberOf),
				Array.from({ length: count }, (_, i) => i),
			);
			for (let i = 0; i < count; i += 1)
				noisy.channel.send(endpoint, numbered(2, i));
			await within("close", patience, channel.close());
			slowDown();
		});

		test("counts monotonically, in snapshots", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			await rig.reach(a, b);
			const [sent, received] = [a.channel.stats(), b.channel.stats()];
			const { sent: sentBefore } = sent;
			a.channel.send(b.endpoint, Uint8Array.of(1));
			await rig.until("the message", () => b.got.length === 1);
			assert.equal(sent.sent, sentBefore, "a snapshot does not move");
			assert.equal(a.channel.stats().sent, sentBefore + 1);
			assert.equal(b.channel.stats().received, received.received + 1);
		});

		test("never delivers after close, and accepts nothing more", async (rig) => {
			const [a, b] = [await rig.open(), await rig.open()];
			await rig.reach(a, b);
			for (let i = 0; i < 500; i += 1)
				a.channel.send(b.endpoint, numbered(1, i));
			await within("close", patience, b.channel.close());
			const atClose = b.got.length;
			for (let i = 0; i < 10; i += 1)
				a.channel.send(b.endpoint, numbered(2, i));
			await quiet();
			assert.equal(b.got.length, atClose);
			assert.equal(b.channel.send(a.endpoint, Uint8Array.of(1)), false);
			await quiet();
			assert.equal(a.got.length, 0);
		});

		test("closes twice, at once and again, also when never started", async (rig) => {
			const { channel } = await rig.open();
			await within(
				"two closes at once",
				patience,
				Promise.all([channel.close(), channel.close()]),
			);
			await within("a third close", patience, channel.close());
			const never = await rig.make();
			await within("close without start", patience, never.close());
			await within("again", patience, never.close());
		});

		test("ends a start that a close overtakes, at whatever moment", async (rig) => {
			const peer = await rig.open();
			for (let moment = 0; moment < 24; moment += 1) {
				const channel = await rig.make();
				const started = channel
					.start(() => {})
					.then(
						() => undefined,
						(error: unknown) => ({ error }),
					);
				// The first moments are steps within one turn of the event loop, the rest are turns.
				for (let at = 0; at < Math.min(moment, 16); at += 1)
					await Promise.resolve();
				for (let at = 16; at < moment; at += 1)
					await new Promise((resolve) => setTimeout(resolve, 0));
				await within("close", patience, channel.close());
				const failed = await within("start", patience, started);
				if (failed !== undefined) hasCode("ERR_KVCR_CLOSED")(failed.error);
				assert.equal(channel.send(peer.endpoint, Uint8Array.of(1)), false);
			}
		});

		test("closes soon although messages wait for a peer that is not there", async (rig) => {
			const { channel } = await rig.open();
			const absent = await factory.absentEndpoint();
			for (let i = 0; i < 50; i += 1) channel.send(absent, patterned(1_000));
			await within("close", patience, channel.close());
		});

		test("finds a peer again that was restarted at the same endpoint, several times", async (rig) => {
			const a = await rig.open();
			let b = await rig.open();
			for (let restart = 0; restart < 4; restart += 1) {
				await rig.reach(a, b);
				await b.channel.close();
				a.channel.send(b.endpoint, Uint8Array.of(9));
				b = await rig.open(b.endpoint);
			}
			await rig.reach(a, b);
		});

		if (factory.createWildcard !== undefined) {
			const create = factory.createWildcard.bind(factory);
			test("refuses to advertise an address that names nobody", async () => {
				await assert.rejects(async () => {
					const channel = await create();
					try {
						await channel.start(() => {});
					} finally {
						await channel.close();
					}
				}, hasCode("ERR_KVCR_INVALID_ENDPOINT"));
			});
		}

		if (factory.createAddressless !== undefined) {
			const create = factory.createAddressless.bind(factory);
			test("sends without an address of its own", async (rig) => {
				const b = await rig.open();
				const a = rig.keep(await create());
				await a.start(() => {});
				assert.equal(a.endpoint, undefined);
				await rig.until("a message", () => {
					a.send(b.endpoint, Uint8Array.of(3));
					return b.got.length > 0;
				});
			});
		}
	});
}

/** A started channel and what it received. */
interface Opened {
	readonly channel: ControlChannel;
	readonly endpoint: string;
	readonly got: Uint8Array[];
}

/** Makes channels for one test and closes them at its end. */
class Rig {
	readonly #factory: ControlChannelFactory;
	readonly #patience: number;
	readonly #made: ControlChannel[] = [];

	constructor(factory: ControlChannelFactory, patience: number) {
		this.#factory = factory;
		this.#patience = patience;
	}

	async make(endpoint?: string): Promise<ControlChannel> {
		return this.keep(await this.#factory.create(endpoint));
	}

	keep(channel: ControlChannel): ControlChannel {
		this.#made.push(channel);
		return channel;
	}

	async open(endpoint?: string): Promise<Opened> {
		const channel = await this.make(endpoint);
		const got: Uint8Array[] = [];
		await channel.start((message) => void got.push(message));
		if (endpoint !== undefined) assert.equal(channel.endpoint, endpoint);
		return { channel, endpoint: channel.endpoint as string, got };
	}

	/**
	 * Sends until something arrives, since a channel may lose messages while it connects; then drops what arrived. The last
	 * probe carries a mark of its own, so that no earlier one is still on its way.
	 */
	async reach(from: Opened, to: Opened): Promise<void> {
		let mark = 0;
		let next = 0;
		await this.until("first contact", () => {
			if (performance.now() >= next) {
				next = performance.now() + 20;
				from.channel.send(to.endpoint, probe(++mark));
			}
			return to.got.some((message) => message[0] === 0xff);
		});
		from.channel.send(to.endpoint, probe(++mark));
		await this.until("the last probe", () =>
			to.got.some((m) => m[0] === 0xff && numberOf(m) === mark),
		);
		to.got.length = 0;
	}

	until(what: string, check: () => boolean): Promise<void> {
		return eventually(what, this.#patience, check);
	}

	async end(): Promise<void> {
		await within(
			"closing all channels",
			this.#patience,
			Promise.all(this.#made.map((channel) => channel.close())),
		);
	}
}

function patterned(size: number): Uint8Array {
	return Uint8Array.from(
		{ length: size },
		(_, i) => (i * 31 + (i >> 8)) & 0xff,
	);
}

function numbered(sender: number, value: number): Uint8Array {
	return Uint8Array.of(sender, value & 0xff, (value >> 8) & 0xff, value >> 16);
}

function probe(mark: number): Uint8Array {
	return numbered(0xff, mark);
}

function numberOf(message: Uint8Array): number {
	return (
		(message[1] as number) |
		((message[2] as number) << 8) |
		((message[3] as number) << 16)
	);
}

function refusals(channel: ControlChannel): number {
	return Object.values(channel.stats().refused).reduce((a, b) => a + b, 0);
}
