/** The sweep of what was cleared: it goes by itself, is nobody's death, and keeps no process alive. */
import { encode } from "@msgpack/msgpack";
import { type RouterHash, silentLogger } from "kvcr-core";
import { ManualClock } from "kvcr-core/testing";
import { afterEach, describe, expect, it } from "vitest";
import { Publisher } from "zeromq";
import { KvEventSubscriber } from "../src/events/index.js";
import { PublisherStream } from "../src/events/publisher-stream.js";
import { Sweeper } from "../src/events/sweeper.js";
import { ReverseHashMap } from "../src/index.js";
import { sequence } from "./support/sequence.js";

const closers: (() => unknown)[] = [];
afterEach(async () => {
	for (const close of closers.splice(0).reverse()) await close();
});

function hash(n: number): Uint8Array {
	const bytes = new Uint8Array(32).fill(7);
	new DataView(bytes.buffer).setBigUint64(24, BigInt(n));
	return bytes;
}
const range = (from: number, count: number) =>
	Array.from({ length: count }, (_, i) => hash(from + i));

/** A map with `count` keys in a tier that was retired. */
function retired(count: number, map = new ReverseHashMap()): ReverseHashMap {
	const tier = map.reserveTier();
	for (const each of range(0, count)) map.addHash(each, 0, 32, 0, tier);
	map.retireTiers(tier);
	return map;
}

/** A map whose sweep or retirement fails while `broken` says so. */
class FaultyMap extends ReverseHashMap {
	broken: "sweep" | "retire" | undefined;
	override sweep(keys: number): boolean {
		if (this.broken === "sweep") throw new TypeError("out of the blue");
		return super.sweep(keys);
	}
	override retireTiers(tiers: number): void {
		if (this.broken === "retire") throw new TypeError("out of the blue");
		super.retireTiers(tiers);
	}
}

describe("a sweep", () => {
	it("goes a slice per timer, between other work", () => {
		const clock = new ManualClock();
		const map = retired(5000);
		const sweeper = new Sweeper(map, clock);
		sweeper.start();
		sweeper.start();
		expect([map.size, clock.pending]).toEqual([5000, 1]);
		const sizes: number[] = [];
		while (clock.runNext()) sizes.push(map.size);
		expect(sizes).toEqual([3000, 1000, 0]);
	});

	it("goes by itself in a process that has nothing else to do", async () => {
		const map = retired(400_000);
		new Sweeper(map).start();
		// Long pauses: the event loop sleeps in between, as in a quiet process.
		await expect
			.poll(() => map.size, { interval: 2000, timeout: 20_000 })
			.toBe(0);
	}, 30_000);

	it("that fails is told, and tried again", () => {
		const clock = new ManualClock();
		const map = new FaultyMap();
		retired(10, map);
		const errors: unknown[] = [];
		const sweeper = new Sweeper(map, clock, (error) => errors.push(error));
		map.broken = "sweep";
		sweeper.start();
		clock.advance(1);
		expect(errors).toEqual([expect.any(TypeError)]);
		map.broken = undefined;
		clock.advance(2000);
		expect([map.size, errors.length, clock.pending]).toEqual([0, 1, 0]);
	});

	it("tells those who wait at its end, of whom one that throws harms nobody", () => {
		const clock = new ManualClock();
		const errors: unknown[] = [];
		const sweeper = new Sweeper(retired(10), clock, (e) => errors.push(e));
		const told: string[] = [];
		sweeper.start();
		expect(
			sweeper.wait(() => {
				throw new TypeError("out of the blue");
			}),
		).toBe(true);
		expect(sweeper.wait(() => told.push("second"))).toBe(true);
		while (clock.runNext());
		expect(told).toEqual(["second"]);
		expect(errors).toHaveLength(1);
		expect(sweeper.wait(() => told.push("never"))).toBe(false);
	});
});

describe("a clear that fails", () => {
	it("does not get out of the receive loop, and is made up for by the next one", () => {
		const map = new FaultyMap();
		const errors: unknown[] = [];
		const stream = new PublisherStream({
			name: "tcp://127.0.0.1:1",
			map,
			sweeper: new Sweeper(map, new ManualClock(), (e) => errors.push(e)),
			replays: { request: () => {}, cancel: () => {} },
			logger: silentLogger,
			onError: () => {},
			maxPayloadBytes: 1 << 20,
			canReplay: false,
			maxWaiting: 10,
			maxWaitingBytes: 1 << 20,
		});
		const live = (seq: number, events: unknown[]) => {
			const number = new Uint8Array(8);
			new DataView(number.buffer).setBigUint64(0, BigInt(seq));
			stream.live([new Uint8Array(), number, encode([seq, events])]);
		};
		const store = (n: number) => ({
			type: "BlockStored",
			block_hashes: [hash(n)],
		});
		live(0, [store(1)]);
		map.broken = "retire";
		live(1, [{ type: "AllBlocksCleared" }]);
		live(9, [store(2)]);
		stream.close();
		expect(stream.stats().dropped.not_applied).toBe(1);
		expect(errors.length).toBeGreaterThan(0);
		map.broken = undefined;
		stream.close();
		expect(map.status(1n as RouterHash)).toBe("not_found");
		expect(map.status(2n as RouterHash)).toBe("not_found");
	});
});

describe("clears and stores over sockets", () => {
	it("lose no store, however many come at once, and a close in the middle ends", async () => {
		const publisher = new Publisher({ linger: 0 });
		await publisher.bind("tcp://127.0.0.1:*");
		closers.push(() => publisher.close());
		const map = new ReverseHashMap();
		const endpoint = publisher.lastEndpoint as string;
		const subscriber = new KvEventSubscriber({
			map,
			publishers: [{ endpoint }],
			logger: silentLogger,
		});
		closers.push(() => subscriber.close());
		await subscriber.start();
		let seq = 0;
		const send = (...events: unknown[]) =>
			publisher.send(["", sequence(seq), encode([seq++, events])]);
		const store = (from: number, count: number) => ({
			type: "BlockStored",
			block_hashes: range(from, count),
		});
		const clear = { type: "AllBlocksCleared" };
		await expect
			.poll(
				async () => {
					await send(store(0, 1));
					return map.size;
				},
				{ timeout: 5000 },
			)
			.toBe(1);
		const before = subscriber.stats().get(endpoint)?.storedBlocks ?? 0;
		for (let i = 0; i < 60; i++) await send(clear, store(0, 3000));
		await expect
			.poll(() => subscriber.stats().get(endpoint)?.storedBlocks, {
				timeout: 20_000,
			})
			.toBeGreaterThanOrEqual(before + 180_000);
		expect(subscriber.stats().get(endpoint)?.tierLimit).toBe(0);
		expect(map.status(2999n as RouterHash)).toBe("unique");
		for (let i = 0; i < 60; i++) await send(clear, store(0, 3000));
		await subscriber.close();
		await expect.poll(() => map.size, { timeout: 20_000 }).toBe(0);
	}, 60_000);
});
