/**
 * What vLLM's keys mean. vLLM's offload key is the block hash (32 or 16 bytes in its releases; any length from 8 is
 * accepted) followed by the index of the KV cache group as 4 bytes, big-endian. Its router hash is the block hash alone,
 * as a big-endian integer cut to its low 64 bits.
 */
import {
	type BlockKey,
	InvalidArgumentError,
	type KeyAdapter,
	type RouterHash,
	type RouterLookup,
} from "kvcr-core";
import { KvEventsDisabledError } from "./errors.js";
import {
	checkKey,
	GROUP_BYTES,
	MAX_HASH_BYTES,
	MIN_HASH_BYTES,
	MIN_KEY_BYTES,
} from "./reverse-map/packed-key.js";
import { ReverseHashMap } from "./reverse-map/reverse-hash-map.js";

/** A block as vLLM names it. */
export interface VllmKey {
	/** Block hash, 8 to 1,020 bytes. */
	readonly blockHash: Uint8Array;
	/** Index of the KV cache group, 0 to 2^32-1. */
	readonly groupIndex: number;
}

/** Router capability of a worker that can act on hints for blocks it did not ask for. */
export const ROUTER_HINT_CAPABILITY = "router_hint";

/** Options of a {@link VllmKeyAdapter}. */
export interface VllmKeyAdapterOptions {
	/** Whether KV cache events are enabled in the engine: without them the reverse map stays empty and is not consulted. */
	readonly events: boolean;
	/** The map that events and inventory feed. @default a new one, where `events` is true */
	readonly map?: ReverseHashMap;
}

/**
 * {@link KeyAdapter} for vLLM. Router hashes are resolved through a {@link ReverseHashMap}; keys that the framework supplies
 * itself never touch it.
 *
 * @example
 * const adapter = new VllmKeyAdapter({ events: true });
 * const key = adapter.encode({ blockHash, groupIndex: 0 });
 * adapter.map?.add(key, TIER_BITS.DRAM);
 * adapter.decodeFromRouter(adapter.decode(key)); // the same bytes
 */
export class VllmKeyAdapter implements KeyAdapter<VllmKey> {
	/** The reverse map; `undefined` when events are disabled. */
	readonly map: ReverseHashMap | undefined;
	/** What to advertise to routers: `["router_hint"]`, nothing when events are disabled. */
	readonly routerCapabilities: readonly string[];

	/** @throws InvalidArgumentError when `events` is no boolean, or a map is given although events are disabled. */
	constructor(options: VllmKeyAdapterOptions) {
		const { events, map } = options ?? {};
		if (typeof events !== "boolean")
			throw new InvalidArgumentError(
				"VllmKeyAdapter",
				"options.events",
				events,
				"a boolean",
			);
		if (map !== undefined && (!events || !isMap(map)))
			throw new InvalidArgumentError(
				"VllmKeyAdapter",
				"options.map",
				isMap(map) ? "a ReverseHashMap" : map,
				"a ReverseHashMap, and absent when events are disabled",
			);
		this.map = events ? (map ?? new ReverseHashMap()) : undefined;
		this.routerCapabilities = events ? [ROUTER_HINT_CAPABILITY] : [];
	}

	/** @throws InvalidArgumentError for a hash or group index out of range. */
	encode(frameworkKey: VllmKey): BlockKey {
		const { blockHash, groupIndex } = frameworkKey ?? {};
		if (
			!(blockHash instanceof Uint8Array) ||
			blockHash.length < MIN_HASH_BYTES ||
			blockHash.length > MAX_HASH_BYTES
		)
			throw new InvalidArgumentError(
				"VllmKeyAdapter.encode",
				"blockHash",
				blockHash,
				`${MIN_HASH_BYTES} to ${MAX_HASH_BYTES} bytes`,
			);
		if (
			!Number.isInteger(groupIndex) ||
			groupIndex < 0 ||
			groupIndex > 0xffff_ffff
		)
			throw new InvalidArgumentError(
				"VllmKeyAdapter.encode",
				"groupIndex",
				groupIndex,
				"an integer of 0 to 2^32-1",
			);
		const key = new Uint8Array(blockHash.length + GROUP_BYTES);
		key.set(blockHash);
		viewOf(key).setUint32(blockHash.length, groupIndex);
		return key as BlockKey;
	}

	/** The inverse of {@link encode}. @throws InvalidArgumentError for a key that cannot be vLLM's. */
	split(key: BlockKey): VllmKey {
		checkKey(key, "VllmKeyAdapter.split", "key");
		const hashBytes = key.length - GROUP_BYTES;
		return {
			// A copy also of a Buffer, whose own `slice` gives a view.
			blockHash: new Uint8Array(key.subarray(0, hashBytes)),
			groupIndex: viewOf(key).getUint32(hashBytes),
		};
	}

	/** @throws InvalidArgumentError for a key that cannot be vLLM's. */
	decode(key: BlockKey): RouterHash {
		checkKey(key, "VllmKeyAdapter.decode", "key");
		return viewOf(key).getBigUint64(key.length - MIN_KEY_BYTES) as RouterHash;
	}

	/** @throws HashNotFoundError, AmbiguousHashError; KvEventsDisabledError when constructed without events. */
	decodeFromRouter(hash: RouterHash): BlockKey {
		return this.#enabled("decodeFromRouter").resolve(hash);
	}

	/** @throws KvEventsDisabledError when constructed without events; InvalidArgumentError for anything but router hashes. */
	decodeManyFromRouter(hashes: readonly RouterHash[]): readonly RouterLookup[] {
		const map = this.#enabled("decodeManyFromRouter");
		if (!Array.isArray(hashes))
			throw new InvalidArgumentError(
				"VllmKeyAdapter.decodeManyFromRouter",
				"hashes",
				hashes,
				"an array of router hashes",
			);
		return map.lookupMany(hashes);
	}

	#enabled(operation: string): ReverseHashMap {
		if (this.map === undefined)
			throw new KvEventsDisabledError(`VllmKeyAdapter.${operation}`);
		return this.map;
	}
}

/** By what it can do: the package may be loaded twice, as ES module and as CommonJS, and has two classes then. */
function isMap(value: unknown): value is ReverseHashMap {
	const map = value as Partial<ReverseHashMap> | null;
	return (
		typeof map === "object" &&
		typeof map?.resolve === "function" &&
		typeof map.lookupMany === "function"
	);
}

function viewOf(bytes: Uint8Array): DataView {
	return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
