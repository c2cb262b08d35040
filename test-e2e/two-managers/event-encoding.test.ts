import { readFileSync } from "node:fs";
import { decode } from "@msgpack/msgpack";
import { expect, it } from "vitest";
import { type EventStruct, encodeBatch } from "./engine/event-encoding.js";

const A = Buffer.from(`${"11".repeat(24)}ff000000000000aa`, "hex");
const B = Buffer.from("22".repeat(16), "hex");

/** Payloads that Python's msgspec made of vLLM's structs. */
const frames = JSON.parse(
	readFileSync(
		new URL(
			"../../packages/kvcr-vllm-adapter/test/fixtures/event-frames.json",
			import.meta.url,
		),
		"utf8",
	),
) as { readonly name: string; readonly payload: string }[];

const STORE: EventStruct = {
	type: "BlockStored",
	fields: {
		block_hashes: [A, B],
		parent_block_hash: null,
		token_ids: [1, 2, 300, 70_000],
		block_size: 2,
		medium: "GPU",
	},
};

it.each(["map", "array"] as const)(
	"a store is encoded with the content that msgspec gives it, as %s",
	(encoding) => {
		const recorded = frames.find(
			({ name }) => name === `a plain store (${encoding}s)`,
		);
		const payload = encodeBatch(1_700_000_000.25, [STORE], encoding);
		expect(recorded).toBeDefined();
		const expected = Uint8Array.from(
			Buffer.from(recorded?.payload ?? "", "hex"),
		);
		expect(decode(payload)).toEqual(decode(expected));
	},
);
