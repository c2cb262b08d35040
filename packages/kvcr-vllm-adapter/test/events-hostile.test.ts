/** Publishers that are wrong, hostile or out of luck, and what the map holds afterwards. */
import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { type Logger, type RouterHash, silentLogger } from "kvcr-core";
import { ManualClock } from "kvcr-core/testing";
import { describe, expect, it } from "vitest";
import {
	PublisherStream,
	type PublisherStreamOptions,
} from "../src/events/publisher-stream.js";
import { Sweeper } from "../src/events/sweeper.js";
import { MapFullError, ReverseHashMap } from "../src/index.js";
import { sequence } from "./support/sequence.js";

/** Hash number `n`: 32 bytes, the number at its end. */
function hash(n: number): Uint8Array {
	const bytes = new Uint8Array(32).fill(7);
	new DataView(bytes.buffer).setBigUint64(24, BigInt(n));
	return bytes;
}
const routerHash = (n: number): RouterHash => BigInt(n) as RouterHash;

const pack = (value: unknown) => encode(value, { useBigInt64: true });

type Fields = Record<string, unknown>;
const stored = (ns: number[], fields: Fields = {}): Fields => ({
	type: "BlockStored",
	block_hashes: ns.map(hash),
	medium: "GPU",
	...fields,
});
const removed = (ns: number[], fields: Fields = {}): Fields => ({
	...stored(ns, fields),
	type: "BlockRemoved",
});
const cleared: Fields = { type: "AllBlocksCleared" };

class Rig {
	readonly asked: number[] = [];
	readonly lines: object[] = [];
	/** Drives the sweep of what was cleared. */
	readonly clock = new ManualClock();
	readonly stream: PublisherStream;

	constructor(
		readonly map: ReverseHashMap,
		more: Partial<PublisherStreamOptions> = {},
	) {
		const note = (fields: object) => this.lines.push(fields);
		this.stream = new PublisherStream({
			name: "tcp://127.0.0.1:1",
			map,
			sweeper: new Sweeper(map, this.clock),
			replays: {
				request: (_rank, seq) => this.asked.push(seq),
				cancel: () => {},
			},
			logger: { ...silentLogger, warn: note, error: note },
			onError: () => {},
			maxPayloadBytes: 1 << 24,
			canReplay: true,
			maxWaiting: 1000,
			maxWaitingBytes: 1 << 24,
			...more,
		});
	}

	live(
		seq: number,
		events: Fields[],
		{ ts = seq, rank }: { ts?: number; rank?: number } = {},
	): void {
		this.stream.live(frames(seq, events, ts, rank ?? null));
	}

	replay(seq: number, events: Fields[], ts = seq): void {
		this.stream.replayed(undefined, frames(seq, events, ts, null));
	}

	/** Lets every sweep come to its end. */
	settle(): void {
		while (this.clock.runNext());
	}

	holds(n: number): boolean {
		return this.map.status(routerHash(n)) !== "not_found";
	}
}

function frames(
	seq: number,
	events: Fields[],
	ts: number,
	rank: number | null,
): Uint8Array[] {
	return [new Uint8Array(), sequence(seq), pack([ts, events, rank])];
}

describe("a publisher that mixes full hashes and integers", () => {
	it("leaves nothing of a batch in which an integer may have removed what a full hash stored", () => {
		const rig = new Rig(new ReverseHashMap());
		rig.live(0, [stored([1])]);
		rig.live(1, [stored([2]), removed([], { block_hashes: [2] })]);
		expect([rig.holds(1), rig.holds(2)]).toEqual([false, false]);
		rig.live(2, [stored([3])]);
		expect(rig.holds(3)).toBe(true);
		rig.live(3, [stored([], { block_hashes: [hash(4), 5n] })]);
		expect([rig.holds(3), rig.holds(4)]).toEqual([false, false]);
		expect(rig.stream.stats().dropped.integer_hashes).toBe(2);
	});

	it("may change the encoding of events within a stream and within a batch", () => {
		const rig = new Rig(new ReverseHashMap());
		const asArray = ["BlockStored", [hash(2)], null, [], 16, null, "GPU"];
		rig.stream.live([
			new Uint8Array(),
			sequence(0),
			pack([1, [stored([1]), asArray]]),
		]);
		rig.stream.live([
			new Uint8Array(),
			sequence(1),
			pack([2, [["BlockRemoved", [hash(1)], "GPU"], removed([2])]]),
		]);
		rig.settle();
		expect(rig.map.size).toBe(0);
		expect(rig.stream.stats()).toMatchObject({
			storedBlocks: 2,
			removedBlocks: 2,
		});
	});
});

describe("what goes wrong while a batch is applied", () => {
	class SmallMap extends ReverseHashMap {
		room = Number.POSITIVE_INFINITY;
		override addHash(...args: Parameters<ReverseHashMap["addHash"]>): boolean {
			if (this.size >= this.room) throw new MapFullError("key", this.size);
			return super.addHash(...args);
		}
	}

	it("is, for a full map, the store alone: a removal after it counts", () => {
		const map = new SmallMap();
		const rig = new Rig(map);
		rig.live(0, [stored([1, 2])]);
		map.room = 3;
		rig.live(1, [stored([3, 4]), removed([1])]);
		expect([1, 2, 3, 4].map((n) => rig.holds(n))).toEqual([
			false,
			true,
			true,
			false,
		]);
		rig.live(2, [stored([5])]);
		expect(rig.holds(5)).toBe(true);
		expect(rig.stream.stats()).toMatchObject({ storedBlocks: 4, mapFull: 1 });
		expect(rig.lines).toHaveLength(1);
	});

	it("does not stop a recovery half way", () => {
		const map = new SmallMap();
		const rig = new Rig(map);
		rig.live(0, [stored([1])]);
		rig.live(2, [stored([3])]);
		rig.live(3, [stored([4])]);
		map.room = 1;
		rig.replay(0, [stored([1])]);
		rig.replay(1, [stored([2])]);
		rig.stream.replayEnded(undefined);
		map.room = 10;
		rig.live(4, [stored([5])]);
		expect(rig.holds(5)).toBe(true);
		expect(rig.asked).toHaveLength(1);
		expect(rig.stream.stats().mapFull).toBe(3);
	});

	it("costs this publisher's blocks when nobody foresaw it, and nothing else", () => {
		class BrokenMap extends ReverseHashMap {
			broken = false;
			override removeHash(
				...args: Parameters<ReverseHashMap["removeHash"]>
			): boolean {
				if (this.broken) throw new TypeError("out of the blue");
				return super.removeHash(...args);
			}
		}
		const map = new BrokenMap();
		const [rig, other] = [new Rig(map), new Rig(map)];
		rig.live(0, [stored([1, 2])]);
		other.live(0, [stored([9])]);
		map.broken = true;
		rig.live(1, [removed([1])]);
		map.broken = false;
		expect([1, 2, 9].map((n) => rig.holds(n))).toEqual([false, false, true]);
		rig.live(2, [stored([3])]);
		expect(rig.holds(3)).toBe(true);
		expect(rig.stream.stats().dropped.not_applied).toBe(1);
	});

	it("may be the caller's own logger or callback", () => {
		const fail = () => {
			throw new Error("the disk of the log is full");
		};
		const logger: Logger = { debug: fail, info: fail, warn: fail, error: fail };
		const rig = new Rig(new ReverseHashMap(), { logger, onError: fail });
		rig.live(0, [stored([1]), { type: "Unknown" }]);
		rig.live(2, [stored([], { block_hashes: [3] })]);
		rig.live(3, [stored([4])]);
		rig.stream.replayEnded(undefined);
		rig.live(4, [stored([5])]);
		expect([1, 4, 5].map((n) => rig.holds(n))).toEqual([false, true, true]);
	});
});

describe("a close by whoever is told something", () => {
	const integers = stored([], { block_hashes: [3] });

	it.each([
		["an unknown event", [[{ type: "Unknown" }, stored([2])]]],
		["a number that comes again", [[stored([2])]]],
		[
			"integer hashes, with batches that wait behind",
			[[integers], [stored([2])]],
		],
		[
			"a lost batch, with batches that wait behind",
			[[stored([2])], [stored([3])]],
		],
	])("leaves nothing in the map: %s", (what, batches) => {
		const map = new ReverseHashMap();
		let closing = false;
		const close = () => {
			if (closing) return;
			closing = true;
			rig.stream.close();
		};
		const rig = new Rig(map, {
			logger: { ...silentLogger, warn: close },
			onError: close,
		});
		rig.live(0, [stored([1])]);
		// Where something waits, a number is missing.
		const first = batches.length > 1 ? 5 : 1;
		for (const [index, events] of batches.entries())
			rig.live(first + index, events);
		if (what.startsWith("a number")) rig.live(0, [stored([4])]);
		rig.stream.replayEnded(undefined);
		expect(closing).toBe(true);
		rig.live(20, [stored([4])]);
		rig.live(0, [stored([5])], { rank: 1 });
		rig.stream.replayed(undefined, frames(21, [stored([6])], 21, null));
		rig.settle();
		while (map.sweep(1000));
		expect(map.size).toBe(0);
	});

	it("is not kept from anybody by a logger that throws", () => {
		const told: unknown[] = [];
		const rig = new Rig(new ReverseHashMap(), {
			logger: {
				...silentLogger,
				error: () => {
					throw new Error("the disk of the log is full");
				},
			},
			onError: (error) => told.push(error),
		});
		rig.live(0, [integers]);
		expect(told).toHaveLength(1);
	});
});

describe("tiers of the map", () => {
	it("are not all taken by one publisher that invents places", () => {
		const map = new ReverseHashMap();
		const [odd, other] = [new Rig(map), new Rig(map)];
		for (let i = 0; i < 100; i++)
			odd.live(i, [stored([i], { medium: `medium ${i}` })]);
		other.live(0, [stored([1000]), stored([1000], { medium: "CPU" })]);
		expect(other.holds(1000)).toBe(true);
		expect(odd.stream.stats()).toMatchObject({
			storedBlocks: 8,
			tierLimit: 92,
		});
		expect(odd.lines).toHaveLength(1);
	});

	it("run out for further publishers only, who are told", () => {
		const map = new ReverseHashMap();
		const rigs = Array.from({ length: 30 }, () => new Rig(map));
		for (const [i, rig] of rigs.entries()) rig.live(0, [stored([i])]);
		expect(map.size).toBe(27);
		expect(rigs.filter(({ lines }) => lines.length === 1)).toHaveLength(3);
	});

	it("come back after a storm of clears, which loses no store, and what others hold stays", () => {
		const map = new ReverseHashMap();
		const [stormy, other] = [new Rig(map), new Rig(map)];
		const theirs = Array.from({ length: 20_000 }, (_, i) => 10_000 + i);
		other.live(0, [stored(theirs)]);
		for (let i = 0; i < 200; i++)
			stormy.live(i, [
				cleared,
				stored([i]),
				stored([i, 500], { medium: "CPU" }),
			]);
		stormy.settle();
		expect(stormy.stream.stats()).toMatchObject({
			tierLimit: 0,
			cleared: 200,
			storedBlocks: 600,
		});
		expect([198, 199, 500].map((n) => stormy.holds(n))).toEqual([
			false,
			true,
			true,
		]);
		expect(map.size).toBe(theirs.length + 2);
	});

	it("are waited for in order: what comes after a store that waits does so too, removals and clears included", () => {
		const map = new ReverseHashMap();
		const rig = new Rig(map);
		for (let i = 0; i < 27; i++) rig.live(i, [stored([i]), cleared]);
		expect(rig.stream.whenFree()).toBeUndefined();
		rig.live(27, [stored([100, 101]), removed([100])]);
		rig.live(28, [stored([102])]);
		expect(rig.stream.whenFree()).toBeInstanceOf(Promise);
		expect(map.status(routerHash(100))).toBe("not_found");
		rig.settle();
		expect(rig.stream.whenFree()).toBeUndefined();
		expect([26, 100, 101, 102].map((n) => rig.holds(n))).toEqual([
			false,
			false,
			true,
			true,
		]);
	});

	it("say when nothing waits any more, also when it is because all was taken back", async () => {
		for (const end of ["settle", "clear"] as const) {
			const rig = new Rig(new ReverseHashMap());
			for (let i = 0; i < 28; i++) rig.live(i, [stored([i]), cleared]);
			rig.live(28, [stored([50])]);
			const free = rig.stream.whenFree();
			expect(free).toBeInstanceOf(Promise);
			if (end === "settle") rig.settle();
			else rig.stream.close();
			await free;
			rig.settle();
			expect(rig.holds(50)).toBe(end === "settle");
		}
	});

	it("that another subscription of the same map has retired are waited for as well", () => {
		const map = new ReverseHashMap();
		const tiers = Array.from({ length: 27 }, () => map.reserveTier());
		map.addHash(hash(1), 0, 32, 0, tiers[0] as number);
		for (const tier of tiers) map.retireTiers(tier);
		const rig = new Rig(map);
		rig.live(0, [stored([2])]);
		rig.settle();
		expect(rig.holds(2)).toBe(true);
	});

	it("are taken by a batch of many clears in bounded steps", () => {
		const map = new ReverseHashMap();
		const rig = new Rig(map);
		const slices: number[] = [];
		const sweep = map.sweep.bind(map);
		map.sweep = (keys) => {
			slices.push(keys);
			return sweep(keys);
		};
		rig.live(0, new Array(1000).fill([cleared, stored([1])]).flat());
		// Nothing is swept while the batch is at hand but one slice, by which the end of free tiers is found out.
		expect(slices.length).toBeLessThanOrEqual(1);
		rig.settle();
		expect(Math.max(...slices)).toBeLessThanOrEqual(10_000);
		expect(rig.stream.stats()).toMatchObject({
			cleared: 1000,
			storedBlocks: 1000,
		});
	});
});

describe("batches that wait for a replay", () => {
	it("are bounded by the memory they take, not by their size on the wire", () => {
		const rig = new Rig(new ReverseHashMap(), { maxWaitingBytes: 1 << 20 });
		rig.live(0, [stored([0])]);
		const short = { block_hashes: new Array(1000).fill(hash(1).slice(24)) };
		// 11 KB on the wire each, some 170 KB decoded.
		for (let i = 0; i < 8; i++) rig.live(2 + i, [stored([], short)]);
		expect(rig.stream.stats().clears.overflow).toBe(1);
	});

	it("clear in their turn, after what the replay brings", () => {
		const rig = new Rig(new ReverseHashMap());
		rig.live(0, [stored([1])]);
		rig.live(2, [stored([2])]);
		rig.live(3, [cleared]);
		rig.live(4, [stored([4])]);
		rig.replay(0, [stored([1])]);
		rig.replay(1, [cleared, stored([3])]);
		rig.replay(3, [stored([99])]);
		rig.stream.replayEnded(undefined);
		expect([1, 2, 3, 4, 99].map((n) => rig.holds(n))).toEqual([
			false,
			false,
			false,
			true,
			false,
		]);
	});
});

describe("sequence numbers", () => {
	it("that were passed already are counted, and logged once", () => {
		const rig = new Rig(new ReverseHashMap());
		for (const seq of [0, 1, 2, 0, 1, 0])
			rig.live(seq, [stored([seq])], { ts: seq });
		expect(rig.stream.stats().stale).toBe(3);
		expect(rig.lines).toEqual([expect.objectContaining({ reason: "stale" })]);
	});

	it("that jump to the largest one and come back cost a replay and lose nothing", () => {
		const rig = new Rig(new ReverseHashMap());
		const history = [0, 1, 2, 3, 4].map((n) => [stored([n])]);
		rig.live(0, history[0] as Fields[]);
		rig.live(1, history[1] as Fields[]);
		rig.live(Number.MAX_SAFE_INTEGER, [stored([77])], { ts: 1.5 });
		for (const seq of [2, 3, 4]) rig.live(seq, history[seq] as Fields[]);
		for (const [seq, events] of history.entries()) rig.replay(seq, events);
		rig.stream.replayEnded(undefined);
		rig.live(5, [stored([5])]);
		expect([0, 1, 2, 3, 4, 5].map((n) => rig.holds(n))).toEqual(
			new Array(6).fill(true),
		);
		expect(rig.holds(77)).toBe(false);
	});

	it("of two publishers behind one endpoint: little is logged, and the one that stays is followed", () => {
		const rig = new Rig(new ReverseHashMap());
		for (let i = 0; i < 500; i++) {
			rig.live(1000 + i, [stored([1000 + i])], { ts: 2 * i });
			rig.live(i, [stored([i])], { ts: 2 * i + 1 });
		}
		expect(rig.lines.length).toBeLessThan(20);
		// Only the first one is left, and answers.
		rig.live(1500, [stored([1500])], { ts: 2000 });
		rig.stream.replayEnded(undefined);
		for (let seq = 1501; seq < 1520; seq++)
			rig.live(seq, [removed([seq - 1]), stored([seq])], { ts: 500 + seq });
		rig.stream.replayEnded(undefined);
		expect(rig.holds(1518)).toBe(false);
		expect(rig.holds(1519)).toBe(true);
	});
});

describe("stores and removals over ranks, media and groups", () => {
	it("credit exactly what they name, however often they repeat", () => {
		const event = fc.record({
			rank: fc.nat({ max: 1 }),
			n: fc.nat({ max: 2 }),
			medium: fc.constantFrom("GPU", "CPU"),
			group_idx: fc.nat({ max: 1 }),
			what: fc.constantFrom("store", "store", "remove", "clear"),
		});
		fc.assert(
			fc.property(fc.array(event, { maxLength: 40 }), (events) => {
				const rig = new Rig(new ReverseHashMap({ seed: 1 }));
				const model = new Map<string, Set<string>>();
				const next = [0, 0];
				for (const { rank, n, medium, group_idx, what } of events) {
					const fields = { medium, group_idx };
					const place = `${rank}/${medium}`;
					const key = `${n}/${group_idx}`;
					const held = model.get(place) ?? new Set();
					model.set(place, held);
					const seq = next[rank] as number;
					next[rank] = seq + 1;
					if (what === "clear") {
						for (const m of ["GPU", "CPU"]) model.delete(`${rank}/${m}`);
						rig.live(seq, [cleared], { rank });
					} else if (what === "store") {
						held.add(key);
						rig.live(seq, [stored([n, n], fields)], { rank });
					} else {
						held.delete(key);
						rig.live(seq, [removed([n], fields)], { rank });
					}
				}
				rig.settle();
				for (let n = 0; n < 3; n++) {
					const groups = [0, 1].filter((group) =>
						[...model.values()].some((held) => held.has(`${n}/${group}`)),
					);
					expect(rig.map.status(routerHash(n))).toBe(
						(["not_found", "unique", "ambiguous_hash"] as const)[groups.length],
					);
				}
			}),
			{ numRuns: 500 },
		);
	});
});
