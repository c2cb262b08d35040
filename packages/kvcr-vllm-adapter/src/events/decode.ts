/**
 * Payloads of vLLM's KV cache events. One is a batch in MessagePack: the array `[ts, [event…], data_parallel_rank?]`. Recent
 * releases write each event as a map whose `type` names it; former ones wrote an array that begins with that name, and both
 * are read. Fields that are not known are skipped whatever they hold, absent ones have defaults.
 *
 * `@msgpack/msgpack` decodes, as in core: it keeps 64-bit integers whole and builds nothing by name, and it decodes five
 * times as many blocks per second as are asked for. It is handed only bytes whose structure was checked.
 */
import { Decoder } from "@msgpack/msgpack";
import { InvalidArgumentError, KvcrError, reasonOf } from "kvcr-core";
import { MAX_HASH_BYTES, MIN_HASH_BYTES } from "../reverse-map/packed-key.js";
import { knownFieldsOnly } from "./known-fields.js";
import { structureFault } from "./structure.js";

/** Where blocks are: one place of presence per publisher and combination of these. */
export interface BlockPlace {
	/** `GPU`, `CPU`, `STORAGE`, or `undefined` where the event names none. */
	readonly medium: string | undefined;
	/** How near it is to the engine, in the publisher's words; `undefined` where the event does not say. */
	readonly locality: string | undefined;
	/** The secondary tier that speaks, e.g. `kvcr`. */
	readonly ownership: string | undefined;
}

/** Wire events `BlockStored` and `BlockRemoved`. */
export interface BlockEvent {
	/** Whether the blocks came to `place`, or left it. */
	readonly kind: "stored" | "removed";
	/** Block hashes, views of the payload. */
	readonly hashes: readonly Uint8Array[];
	/** KV cache group. @default 0 */
	readonly group: number;
	/** Where they came to, or left. */
	readonly place: BlockPlace;
}

/** Wire event `AllBlocksCleared`. */
export interface ClearedEvent {
	readonly kind: "cleared";
}

/** One event of a batch. */
export type KvEvent = BlockEvent | ClearedEvent;

/** A decoded payload. */
export interface KvEventBatch {
	/** Time of the batch at the publisher, in seconds. */
	readonly ts: number;
	/** Data-parallel rank of the publisher; `undefined` where it names none. */
	readonly rank: number | undefined;
	/** The usable events, in order. */
	readonly events: readonly KvEvent[];
	/** Events left out because their kind is not known. */
	readonly unknownTags: number;
	/** Events left out because a field is missing or unusable. */
	readonly invalidEvents: number;
	/** Events whose hashes are integers: they do not carry full keys. */
	readonly integerHashes: number;
}

/** A payload is not an event batch at all. */
export class MalformedEventsError extends KvcrError {
	/** @param reason what is wrong with the payload */
	constructor(reason: string) {
		super(
			"ERR_KVCR_MALFORMED_EVENTS",
			`decodeEventBatch: payload cannot be read: ${reason}`,
		);
	}
}

/** A publisher sends block hashes as integers, which do not carry full keys. */
export class IntegerHashesError extends KvcrError {
	/** @param publisher how to call it in the message */
	constructor(publisher: string) {
		super(
			"ERR_KVCR_INTEGER_HASHES",
			`KV events of ${publisher} name blocks by 64-bit integers, which do not carry full keys; ` +
				"start vLLM with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0",
		);
	}
}

/** Positions of fields in the array encoding, the tag being at 0. */
const STORED_FIELDS = { medium: 6, group_idx: 9, locality: 12, ownership: 13 };
const REMOVED_FIELDS = { medium: 2, group_idx: 3, locality: 4, ownership: 5 };
/** Longest name of a medium, locality or owner, in characters. */
const MAX_NAME = 64;

const decoder = new Decoder({ useBigInt64: true });

/**
 * @throws MalformedEventsError when the payload as a whole is unusable; single unusable events are left out and counted.
 * InvalidArgumentError when it is no bytes.
 */
export function decodeEventBatch(payload: Uint8Array): KvEventBatch {
	if (!(payload instanceof Uint8Array))
		throw new InvalidArgumentError(
			"decodeEventBatch",
			"payload",
			payload,
			"a Uint8Array",
		);
	const fault = structureFault(payload);
	if (fault !== undefined) throw new MalformedEventsError(fault);
	const value = decode(payload);
	if (!Array.isArray(value) || value.length < 2)
		throw new MalformedEventsError("not an array of time and events");
	const [time, list, rankValue] = value as unknown[];
	const ts = toNumber(time);
	if (ts === undefined || Number.isNaN(ts))
		throw new MalformedEventsError("time is no number");
	if (!Array.isArray(list))
		throw new MalformedEventsError("events are no array");
	const rank = rankValue == null ? undefined : toIndex(rankValue);
	if (rankValue != null && rank === undefined)
		throw new MalformedEventsError("data_parallel_rank is no index");
	const events: KvEvent[] = [];
	const left = { unknown: 0, invalid: 0, integers: 0 };
	for (const entry of list as unknown[]) {
		const event = decodeEvent(entry);
		if (typeof event === "string") left[event]++;
		else events.push(event);
	}
	return {
		ts,
		rank,
		events,
		unknownTags: left.unknown,
		invalidEvents: left.invalid,
		integerHashes: left.integers,
	};
}

function decode(payload: Uint8Array): unknown {
	try {
		return decoder.decode(payload);
	} catch {
		// Rare: a field holds what the decoder makes no value of. Such a field should cost nothing else.
		try {
			return decoder.decode(knownFieldsOnly(payload));
		} catch (error) {
			throw new MalformedEventsError(reasonOf(error));
		}
	}
}

type LeftOut = "unknown" | "invalid" | "integers";

function decodeEvent(entry: unknown): KvEvent | LeftOut {
	const isArray = Array.isArray(entry);
	if (!isArray && !isMap(entry)) return "invalid";
	const tag: unknown = isArray ? entry[0] : entry.type;
	switch (tag) {
		case "AllBlocksCleared":
			return { kind: "cleared" };
		case "BlockStored":
			return blockEvent("stored", entry, STORED_FIELDS);
		case "BlockRemoved":
			return blockEvent("removed", entry, REMOVED_FIELDS);
		default:
			return typeof tag === "string" ? "unknown" : "invalid";
	}
}

function blockEvent(
	kind: BlockEvent["kind"],
	entry: Record<string, unknown> | unknown[],
	fields: typeof STORED_FIELDS,
): BlockEvent | LeftOut {
	const field = (name: keyof typeof STORED_FIELDS): unknown =>
		(Array.isArray(entry) ? entry[fields[name]] : entry[name]) ?? undefined;
	const hashes: unknown = Array.isArray(entry) ? entry[1] : entry.block_hashes;
	if (!Array.isArray(hashes)) return "invalid";
	for (const hash of hashes as unknown[]) {
		if (hash instanceof Uint8Array) {
			if (hash.length < MIN_HASH_BYTES || hash.length > MAX_HASH_BYTES)
				return "invalid";
		} else
			return typeof hash === "bigint" || Number.isInteger(hash)
				? "integers"
				: "invalid";
	}
	const group = toIndex(field("group_idx") ?? 0);
	const medium = field("medium");
	const locality = field("locality");
	const ownership = field("ownership");
	if (
		group === undefined ||
		!isName(medium) ||
		!isName(locality) ||
		!isName(ownership)
	)
		return "invalid";
	return {
		kind,
		hashes: hashes as Uint8Array[],
		group,
		place: { medium, locality, ownership },
	};
}

function isName(value: unknown): value is string | undefined {
	return (
		value === undefined ||
		(typeof value === "string" && value.length <= MAX_NAME)
	);
}

function isMap(value: unknown): value is Record<string, unknown> {
	return (
		typeof value === "object" &&
		value !== null &&
		!(value instanceof Uint8Array)
	);
}

function toNumber(value: unknown): number | undefined {
	if (typeof value === "bigint") return Number(value);
	return typeof value === "number" ? value : undefined;
}

/** An unsigned 32-bit integer, whichever of the integer formats it came in. */
function toIndex(value: unknown): number | undefined {
	const number = toNumber(value);
	return number !== undefined &&
		Number.isInteger(number) &&
		number >= 0 &&
		number <= 0xffff_ffff
		? number
		: undefined;
}
