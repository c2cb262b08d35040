/** Payloads of KV events: both encodings, what is absent or new in them, and what is no payload at all. */
import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { silentLogger } from "kvcr-core";
import { describe, expect, it } from "vitest";
import {
	decodeEventBatch,
	type KvEvent,
	MalformedEventsError,
} from "../src/events/index.js";
import { PublisherStream } from "../src/events/publisher-stream.js";
import { structureFault } from "../src/events/structure.js";
import { Sweeper } from "../src/events/sweeper.js";
import { ReverseHashMap } from "../src/index.js";
import frames from "./fixtures/event-frames.json" with { type: "json" };
import { sequence } from "./support/sequence.js";

const hash = (fill: number, length = 32) => new Uint8Array(length).fill(fill);
const pack = (value: unknown) => encode(value, { useBigInt64: true });

function events(...list: unknown[]) {
	return decodeEventBatch(pack([1.5, list]));
}

function place(event: KvEvent | undefined) {
	return event?.kind === "stored" || event?.kind === "removed"
		? event.place
		: undefined;
}

describe("payloads recorded from a publisher", () => {
	for (const { name, payload, expected } of frames)
		it(`reads ${name}`, () => {
			const batch = decodeEventBatch(
				new Uint8Array(Buffer.from(payload, "hex")),
			);
			const plain = JSON.parse(
				JSON.stringify(batch, (_key, value: unknown) =>
					value instanceof Uint8Array
						? Buffer.from(value).toString("hex")
						: value,
				),
			) as unknown;
			expect(plain).toEqual(expected);
		});
});

describe("an event", () => {
	it("may leave out every field that has a default", () => {
		expect(
			events({ type: "BlockStored", block_hashes: [hash(1)] }).events,
		).toEqual([
			{
				kind: "stored",
				hashes: [hash(1)],
				group: 0,
				place: { medium: undefined, locality: undefined, ownership: undefined },
			},
		]);
		expect(events(["BlockRemoved", [hash(1)]]).events[0]).toMatchObject({
			group: 0,
		});
	});

	it("may have fields nobody knows yet, and more of them at the end", () => {
		const batch = decodeEventBatch(
			pack([
				1,
				[
					{
						type: "BlockRemoved",
						block_hashes: [hash(2)],
						medium: "CPU",
						novel: { x: [1] },
					},
					["AllBlocksCleared", "novel", 7],
				],
				3,
				"novel",
			]),
		);
		expect(batch.rank).toBe(3);
		expect(batch.events.map(({ kind }) => kind)).toEqual([
			"removed",
			"cleared",
		]);
	});

	it("takes integers in whatever format they were sent", () => {
		const batch = decodeEventBatch(
			pack([
				7n,
				[{ type: "BlockStored", block_hashes: [hash(1)], group_idx: 5n }],
				2n,
			]),
		);
		expect(batch).toMatchObject({ ts: 7, rank: 2, events: [{ group: 5 }] });
	});

	it("keeps places apart by medium, locality and owner", () => {
		const { events: list } = events(
			["BlockRemoved", [hash(1)], "CPU", 4, "LOCAL", "kvcr"],
			{ type: "BlockRemoved", block_hashes: [], medium: null },
		);
		expect(place(list[0])).toEqual({
			medium: "CPU",
			locality: "LOCAL",
			ownership: "kvcr",
		});
		expect(place(list[1])).toEqual({
			medium: undefined,
			locality: undefined,
			ownership: undefined,
		});
	});

	it("is left out and counted when it is of a wrong type, and the others count", () => {
		const batch = events(
			7,
			[],
			{},
			{ type: 5 },
			{ type: "BlockStored" },
			{ type: "BlockStored", block_hashes: "x" },
			{ type: "BlockStored", block_hashes: [hash(1, 7)] },
			{ type: "BlockStored", block_hashes: [hash(1, 1021)] },
			{ type: "BlockStored", block_hashes: [hash(1), "x"] },
			{ type: "BlockStored", block_hashes: [1.5] },
			{ type: "BlockStored", block_hashes: [hash(1)], group_idx: -1 },
			{ type: "BlockStored", block_hashes: [hash(1)], group_idx: 2n ** 40n },
			{ type: "BlockStored", block_hashes: [hash(1)], medium: 5 },
			{ type: "BlockStored", block_hashes: [hash(1)], medium: "x".repeat(65) },
			{ type: "NotYetInvented" },
			{ type: "BlockStored", block_hashes: [2n ** 63n] },
			{ type: "BlockStored", block_hashes: [-3] },
			{ type: "BlockStored", block_hashes: [hash(1)] },
		);
		expect(batch.events).toHaveLength(1);
		expect(batch).toMatchObject({
			invalidEvents: 14,
			unknownTags: 1,
			integerHashes: 2,
		});
	});
});

describe("bytes that are no payload", () => {
	it("are refused with a reason", () => {
		for (const value of [
			null,
			5,
			[],
			[1],
			["now", []],
			[Number.NaN, []],
			[1, {}],
			[1, [], -1],
			[1, [], "0"],
		])
			expect(() => decodeEventBatch(pack(value))).toThrow(MalformedEventsError);
		expect(() => decodeEventBatch(new Uint8Array())).toThrow(/truncated/);
		const proto = Buffer.from("92019181a95f5f70726f746f5f5f80", "hex");
		expect(decodeEventBatch(proto)).toMatchObject({
			events: [],
			invalidEvents: 1,
		});
	});

	it("allocate nothing in proportion to what they announce", () => {
		const bomb = Buffer.from("dd0fffffff".repeat(40), "hex");
		const before = process.memoryUsage().heapUsed;
		for (let i = 0; i < 100; i++)
			expect(structureFault(bomb)).toBe("truncated");
		expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000);
		expect(structureFault(Buffer.from("91".repeat(200), "hex"))).toBe(
			"too_deep",
		);
		expect(structureFault(Buffer.from("c1", "hex"))).toBe("unknown_format");
		for (const extension of ["d40000", "c7020000ff", "c80001ff00", "d8"])
			expect(structureFault(Buffer.from(extension, "hex"))).toBe(
				extension === "d8" ? "truncated" : undefined,
			);
		expect(structureFault(Buffer.from("c7020000", "hex"))).toBe("truncated");
		expect(structureFault(Buffer.from("c0c0", "hex"))).toBe("trailing_bytes");
	});

	it("are refused when what they describe would take many times their size", () => {
		for (const [name, value] of [
			["empty maps", 0x80],
			["empty arrays", 0x90],
			["empty strings", 0xa0],
		] as const) {
			const count = 8 << 20;
			const payload = new Uint8Array(7 + count).fill(value);
			payload.set([0x92, 1, 0xdd, 0, count >>> 16, 0, 0]);
			expect(structureFault(payload), name).toBe("too_many_values");
		}
		// What an engine stores in one step is far from that.
		const large = {
			type: "BlockStored",
			block_hashes: Array.from({ length: 100_000 }, (_, i) => hash(i)),
			token_ids: new Array(1_600_000).fill(70_000),
		};
		expect(structureFault(pack([1, [large]]))).toBeUndefined();
	});

	it("pass the structure check exactly where a strict decoder reads them to the end", () => {
		const value = fc.letrec((tie) => ({
			any: fc.oneof(
				{ maxDepth: 4 },
				fc.constant(null),
				fc.boolean(),
				fc.integer(),
				fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
				fc.double(),
				fc.string(),
				fc.uint8Array({ maxLength: 300 }),
				fc.array(tie("any"), { maxLength: 20 }),
				fc.dictionary(fc.string(), tie("any"), { maxKeys: 5 }),
			),
		})).any;
		fc.assert(
			fc.property(value, fc.nat(), (content, cut) => {
				const bytes = pack(content);
				expect(structureFault(bytes)).toBeUndefined();
				if (bytes.length > 1)
					expect(structureFault(bytes.subarray(0, cut % bytes.length))).toBe(
						"truncated",
					);
			}),
		);
	});
});

describe("a stream fed with anything", () => {
	it("never throws, and drops what it cannot use", () => {
		const good = frames.map(
			({ payload }) => new Uint8Array(Buffer.from(payload, "hex")),
		);
		const damaged = fc
			.tuple(
				fc.constantFrom(...good),
				fc.nat(),
				fc.nat({ max: 255 }),
				fc.boolean(),
			)
			.map(([payload, at, byte, cut]) => {
				const copy = payload.slice();
				copy[at % copy.length] = byte;
				return cut ? copy.subarray(0, at % copy.length) : copy;
			});
		const frame = fc.oneof(
			fc.uint8Array({ maxLength: 60 }),
			fc.uint8Array({ minLength: 8, maxLength: 8 }),
			damaged,
		);
		const message = fc.oneof(
			fc.array(frame, { maxLength: 5 }),
			fc
				.tuple(fc.nat({ max: 40 }), damaged)
				.map(([seq, payload]) => [hash(0, 0), sequence(seq), payload]),
		);
		const map = new ReverseHashMap({ seed: 1 });
		const asked: number[] = [];
		const stream = new PublisherStream({
			name: "tcp://127.0.0.1:1",
			map,
			sweeper: new Sweeper(map),
			replays: { request: (rank) => asked.push(rank ?? -1), cancel: () => {} },
			logger: silentLogger,
			onError: () => {},
			maxPayloadBytes: 1 << 20,
			canReplay: true,
			maxWaiting: 20,
			maxWaitingBytes: 1 << 20,
		});
		fc.assert(
			fc.property(message, fc.nat({ max: 3 }), (parts, how) => {
				if (how < 2) stream.live(parts);
				else if (how === 2) stream.replayed(undefined, parts);
				else stream.replayEnded(undefined);
			}),
			{ numRuns: 5000 },
		);
		const { dropped } = stream.stats();
		expect(dropped.malformed).toBeGreaterThan(100);
		expect(dropped.bad_sequence).toBeGreaterThan(100);
	});

	it("logs each kind of trouble once, however often it comes", () => {
		const lines: object[] = [];
		const map = new ReverseHashMap();
		const stream = new PublisherStream({
			name: "tcp://127.0.0.1:1",
			map,
			sweeper: new Sweeper(map),
			replays: { request: () => {}, cancel: () => {} },
			logger: { ...silentLogger, warn: (fields) => lines.push(fields) },
			onError: () => {},
			maxPayloadBytes: 100,
			canReplay: false,
			maxWaiting: 1,
			maxWaitingBytes: 1,
		});
		for (let i = 0; i < 50; i++) {
			stream.live([hash(0, 0), sequence(i), hash(0xc1, 3)]);
			stream.live([hash(0, 0), sequence(i), hash(0, 101)]);
			stream.live([hash(0, 3)]);
		}
		expect(lines).toHaveLength(3);
		expect(stream.stats().dropped).toMatchObject({
			malformed: 50,
			too_large: 50,
			bad_sequence: 50,
		});
	});
});
