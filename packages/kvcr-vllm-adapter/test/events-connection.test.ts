/** Frames that are too large, and connections that ZeroMQ gives up over them. */
import { createServer, type Socket } from "node:net";
import { encode } from "@msgpack/msgpack";
import { type RouterHash, silentLogger } from "kvcr-core";
import { afterEach, describe, expect, it } from "vitest";
import { Publisher } from "zeromq";
import { KvEventSubscriber } from "../src/events/index.js";
import { ReverseHashMap } from "../src/index.js";
import { sequence } from "./support/sequence.js";

const closers: (() => unknown)[] = [];
afterEach(async () => {
	for (const close of closers.splice(0).reverse()) await close();
});

/** A batch that stores one block, whose router hash repeats `block`. */
function batch(seq: number, block: number): Uint8Array {
	const event = {
		type: "BlockStored",
		block_hashes: [Buffer.alloc(32, block)],
	};
	return encode([seq, [event]]);
}

const routerHash = (block: number) =>
	Buffer.alloc(8, block).readBigUInt64BE() as RouterHash;

async function subscribe(endpoint: string, maxPayloadBytes?: number) {
	const map = new ReverseHashMap();
	const lines: object[] = [];
	const note = (fields: object) => lines.push(fields);
	const subscriber = new KvEventSubscriber({
		map,
		publishers: [{ endpoint }],
		logger: { ...silentLogger, warn: note, error: note },
		...(maxPayloadBytes === undefined ? {} : { maxPayloadBytes }),
	});
	closers.push(() => subscriber.close());
	await subscriber.start();
	const stats = () => {
		const found = subscriber.stats().get(endpoint);
		if (found === undefined) throw new Error("no such publisher");
		return found;
	};
	return { map, lines, stats };
}

describe("a payload above the limit", () => {
	it("is dropped, counted and logged once, and later batches arrive", async () => {
		const publisher = new Publisher({ linger: 0 });
		await publisher.bind("tcp://127.0.0.1:*");
		closers.push(() => publisher.close());
		const { map, lines, stats } = await subscribe(
			publisher.lastEndpoint as string,
			10_000,
		);
		let seq = 0;
		const send = (payload: Uint8Array) =>
			publisher.send(["", sequence(seq++), payload]);
		const arrives = async (block: number) => {
			await send(batch(seq, block));
			return map.status(routerHash(block));
		};
		await expect.poll(() => arrives(1), { timeout: 5000 }).toBe("unique");
		await send(Buffer.alloc(10_001));
		await send(Buffer.alloc(100_000));
		await expect.poll(() => stats().dropped.too_large).toBe(2);
		await expect.poll(() => arrives(2), { timeout: 5000 }).toBe("unique");
		// What the large ones said is not known, and there is no replay.
		expect(map.status(routerHash(1))).toBe("not_found");
		expect(stats().clears.gap_not_replayable).toBeGreaterThan(0);
		const told = lines.filter(
			(line) => (line as { reason?: string }).reason === "too_large",
		);
		expect(told).toHaveLength(1);
	});
});

/** A publisher of bytes: the greeting and the handshake of ZMTP 3.0, and then frames whose lengths may be lies. */
class RawPublisher {
	readonly #server = createServer((socket) => this.#accept(socket));
	readonly #sockets = new Set<Socket>();
	/** Connections that have subscribed. */
	connections = 0;

	async listen(): Promise<string> {
		await new Promise<void>((resolve) =>
			this.#server.listen(0, "127.0.0.1", resolve),
		);
		const address = this.#server.address();
		if (address === null || typeof address === "string")
			throw new Error("no port");
		return `tcp://127.0.0.1:${address.port}`;
	}

	send(bytes: Buffer): void {
		for (const socket of this.#sockets) socket.write(bytes);
	}

	message(seq: number, payload: Uint8Array): void {
		const frame = (body: Uint8Array, more: boolean) =>
			Buffer.concat([Buffer.from([more ? 1 : 0, body.length]), body]);
		this.send(
			Buffer.concat([
				frame(Buffer.alloc(0), true),
				frame(sequence(seq), true),
				frame(payload, false),
			]),
		);
	}

	async close(): Promise<void> {
		for (const socket of this.#sockets) socket.destroy();
		await new Promise((resolve) => this.#server.close(resolve));
	}

	#accept(socket: Socket): void {
		const greeting = Buffer.alloc(64);
		greeting[0] = 0xff;
		greeting[9] = 0x7f;
		greeting[10] = 3;
		greeting.write("NULL", 12);
		const ready = Buffer.from("\x05READY\x0bSocket-Type\0\0\0\x03PUB");
		socket.write(
			Buffer.concat([greeting, Buffer.from([4, ready.length]), ready]),
		);
		let read = 0;
		socket.on("error", () => {});
		socket.on("close", () => this.#sockets.delete(socket));
		socket.on("data", (data) => {
			read += data.length;
			// The peer's greeting is over, and its READY and subscription are at least on their way.
			if (read <= 64 || this.#sockets.has(socket)) return;
			this.#sockets.add(socket);
			this.connections++;
		});
	}
}

describe("a connection that ZeroMQ gives up", () => {
	it("is counted, logged once and made again: batches go on, and what was missed is a gap", async () => {
		const publisher = new RawPublisher();
		closers.push(() => publisher.close());
		const { map, lines, stats } = await subscribe(await publisher.listen());
		await expect.poll(() => publisher.connections, { timeout: 5000 }).toBe(1);
		publisher.message(0, batch(0, 1));
		await expect.poll(() => map.status(routerHash(1))).toBe("unique");
		for (let times = 1; times <= 2; times++) {
			// A last frame of a terabyte.
			publisher.send(Buffer.from("020000010000000000", "hex"));
			await expect
				.poll(() => stats().dropped.connection_given_up, { timeout: 10_000 })
				.toBe(times);
			await expect
				.poll(() => publisher.connections, { timeout: 10_000 })
				.toBe(1 + times);
		}
		publisher.message(2, batch(2, 2));
		await expect
			.poll(() => map.status(routerHash(2)), { timeout: 5000 })
			.toBe("unique");
		expect(map.status(routerHash(1))).toBe("not_found");
		expect(
			lines.filter(
				(line) =>
					(line as { reason?: string }).reason === "connection_given_up",
			),
		).toHaveLength(1);
	}, 30_000);
});
