/** Fields that are not known are skipped whatever they hold, and known ones that hold such a thing cost one event. */
import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { InvalidArgumentError } from "kvcr-core";
import { describe, expect, it } from "vitest";
import { decodeEventBatch } from "../src/events/index.js";

const bytes = (hex: string) => Buffer.from(hex, "hex");
const text = (value: string) =>
	Buffer.concat([Buffer.from([0xd9, value.length]), Buffer.from(value)]);
const map = (...entries: Uint8Array[]) =>
	Buffer.concat([Buffer.from([0x80 | (entries.length / 2)]), ...entries]);
const array = (...values: Uint8Array[]) =>
	Buffer.concat([Buffer.from([0x90 | values.length]), ...values]);

const HASH = Buffer.alloc(32, 7);
const hashes = array(encode(HASH));
const nested = (depth: number) =>
	Buffer.concat([Buffer.alloc(depth, 0x91), bytes("01")]);

/** Values that no object of JavaScript takes as they are, or that no decoder knows. */
const ODD: Record<string, Uint8Array> = {
	"a timestamp": bytes("d6ff00000001"),
	"a timestamp of odd length": bytes("c703ff010203"),
	"an extension of its own": bytes("d4050a"),
	"a long extension": Buffer.concat([bytes("c9000000640a"), Buffer.alloc(100)]),
	"a map keyed by nil": map(bytes("c0"), bytes("01")),
	"a map keyed by bytes": map(bytes("c4020102"), bytes("01")),
	"a map keyed by a truth": map(bytes("c3"), bytes("01")),
	"a map keyed by an array": map(bytes("9101"), bytes("01")),
	"a map keyed by a map": map(bytes("8101c0"), bytes("01")),
	"a map keyed by a long integer": map(
		bytes("cf0000000000000001"),
		bytes("01"),
	),
	"a map keyed by an extension": map(bytes("d4050a"), bytes("01")),
	"a map with __proto__": map(text("__proto__"), bytes("01")),
	"a deep array": nested(50),
};

const stored = (...more: Uint8Array[]) =>
	map(
		text("type"),
		text("BlockStored"),
		text("block_hashes"),
		hashes,
		text("medium"),
		text("GPU"),
		...more,
	);
const batch = (...events: Uint8Array[]) =>
	array(bytes("cb3ff0000000000000"), array(...events), bytes("00"));

const EVENT = {
	kind: "stored",
	hashes: [new Uint8Array(HASH)],
	group: 0,
	place: { medium: "GPU", locality: undefined, ownership: undefined },
};
const plain = (payload: Uint8Array) => {
	const { events, ...rest } = decodeEventBatch(payload);
	return {
		...rest,
		events: events.map((event) =>
			event.kind === "cleared"
				? event
				: {
						...event,
						hashes: event.hashes.map((each) => Uint8Array.from(each)),
					},
		),
	};
};

describe.each(Object.entries(ODD))("%s", (_name, odd) => {
	const whole = {
		ts: 1,
		rank: 0,
		unknownTags: 0,
		invalidEvents: 0,
		integerHashes: 0,
	};

	it("in an unknown field of a map is skipped", () => {
		for (const payload of [
			batch(stored(text("x"), odd), stored()),
			batch(stored(), stored(odd, text("type"))),
			batch(stored(text("__proto__"), odd), stored()),
		])
			expect(plain(payload)).toEqual({ ...whole, events: [EVENT, EVENT] });
	});

	it("in an unknown field of an array is skipped", () => {
		const nil = bytes("c0");
		const event = array(
			text("BlockStored"),
			hashes,
			odd,
			odd,
			nil,
			nil,
			text("GPU"),
			...new Array(7).fill(nil),
			odd,
		);
		expect(plain(batch(event, stored()))).toEqual({
			...whole,
			events: [EVENT, EVENT],
		});
	});

	it("beyond the known fields of the batch is skipped", () => {
		const payload = array(bytes("01"), array(stored()), bytes("00"), odd);
		expect(plain(payload)).toEqual({ ...whole, events: [EVENT] });
	});

	it("as an event, its tag, its hashes or another known field costs this event", () => {
		for (const event of [
			odd,
			map(text("type"), odd),
			map(text("type"), text("BlockStored"), text("block_hashes"), odd),
			map(text("type"), text("BlockStored"), text("block_hashes"), array(odd)),
			map(
				text("type"),
				text("BlockStored"),
				text("block_hashes"),
				hashes,
				text("medium"),
				odd,
			),
			array(text("BlockRemoved"), hashes, odd),
		])
			expect(plain(batch(event, stored()))).toEqual({
				...whole,
				invalidEvents: 1,
				events: [EVENT],
			});
	});

	it("is read over in an event of an unknown kind", () => {
		const event = map(text("type"), text("Later"), text("x"), odd);
		expect(plain(batch(event, stored()))).toEqual({
			...whole,
			unknownTags: 1,
			events: [EVENT],
		});
	});
});

it("one odd field changes nothing about what the rest of any batch says", () => {
	const field = fc.oneof(
		fc.constant(null),
		fc.constantFrom("GPU", "CPU", "kvcr"),
		fc.integer({ min: -1, max: 3 }),
		fc.constant([1]),
	);
	const hash = fc.oneof(
		{ weight: 8, arbitrary: fc.uint8Array({ minLength: 7, maxLength: 34 }) },
		fc.integer(),
	);
	const event = fc.oneof(
		fc.record({
			type: fc.constantFrom("BlockStored", "BlockRemoved", "New", 5),
			block_hashes: fc.oneof(fc.array(hash, { maxLength: 20 }), field),
			medium: field,
			group_idx: field,
			token_ids: fc.array(fc.nat(), { maxLength: 20 }),
		}),
		fc.tuple(
			fc.constantFrom("BlockStored", "BlockRemoved", "AllBlocksCleared"),
			fc.array(hash, { maxLength: 3 }),
			field,
			field,
			field,
		),
		field,
	);
	fc.assert(
		fc.property(
			fc.array(event, { maxLength: 20 }),
			fc.constantFrom(...Object.values(ODD)),
			(events, odd) => {
				const plainly = encode([1, events, 0]);
				// The same batch with a fourth field.
				const more = Buffer.concat([plainly, odd]);
				more[0] = 0x94;
				expect(plain(more)).toEqual(plain(plainly));
			},
		),
		{ numRuns: 1000 },
	);
});

it("what is no bytes is refused as an argument", () => {
	for (const payload of [undefined, null, "x", [1], new ArrayBuffer(4)])
		expect(() => decodeEventBatch(payload as never)).toThrow(
			InvalidArgumentError,
		);
});
