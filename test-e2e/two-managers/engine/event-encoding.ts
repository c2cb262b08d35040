/**
 * KV cache events as vLLM encodes them: MessagePack of msgspec structs. Current releases write an event as a map with its
 * tag under `type` and leave out defaults, older ones as an array of all fields with the tag first.
 */
import { encode } from "@msgpack/msgpack";
import type { PublishedEvent } from "./engine.js";

/** How events are written. */
export type EventEncoding = "map" | "array";

type Fields = Readonly<Record<string, unknown>>;

/** An event by its tag, with the fields that are not at their defaults. */
export interface EventStruct {
	readonly type: keyof typeof ORDER;
	readonly fields: Fields;
}

/** Fields in the order in which the structs declare them. */
const ORDER = {
	BlockStored: [
		"block_hashes",
		"parent_block_hash",
		"token_ids",
		"block_size",
		"lora_id",
		"medium",
		"lora_name",
		"extra_keys",
		"group_idx",
		"kv_cache_spec_kind",
		"kv_cache_spec_sliding_window",
		"locality",
		"ownership",
		"session_id",
		"lookahead_token_ids",
	],
	BlockRemoved: [
		"block_hashes",
		"medium",
		"group_idx",
		"locality",
		"ownership",
	],
} as const;
/** The payload of a batch: `[ts, events, data_parallel_rank]`. `ts` must not be a whole number, which would be written as one. */
export function encodeBatch(
	ts: number,
	events: readonly EventStruct[],
	encoding: EventEncoding,
): Uint8Array {
	return encode([ts, events.map((event) => plain(event, encoding)), null]);
}

/** What vLLM would say of a simulator's event: one event per key, since each key names its group. */
export function structsOf(
	{ keys, medium, removed, ownership }: PublishedEvent,
	blockTokens: number,
): EventStruct[] {
	return keys.map((key) => {
		const hashBytes = key.length - 4;
		const where = {
			block_hashes: [key.subarray(0, hashBytes)],
			medium,
			group_idx: Buffer.from(key).readUInt32BE(hashBytes),
			...(ownership !== null && { ownership }),
		};
		return removed
			? { type: "BlockRemoved", fields: where }
			: {
					type: "BlockStored",
					fields: {
						...where,
						parent_block_hash: null,
						token_ids: [],
						block_size: blockTokens,
					},
				};
	});
}

function plain(
	{ type, fields }: EventStruct,
	encoding: EventEncoding,
): unknown {
	if (encoding === "map") return { type, ...fields };
	return [type, ...ORDER[type].map((name) => fields[name] ?? null)];
}
