/** The key adapter: what an engine's keys mean. Core knows block keys as bytes only. */
import type { BlockKey, RouterHash } from "./names.js";

/** Answer of a batch look-up for one hash. */
export type RouterLookup = BlockKey | "not_found" | "ambiguous_hash";

/**
 * Translates between an engine's keys, block keys and router hashes. All methods are synchronous and quick: look-ups run
 * on progress while transfers wait. See the conformance suite `keyAdapterSuite` in `kvcr-core/testing`.
 */
export interface KeyAdapter<FrameworkKey = unknown> {
	/** Block key of an engine's key. */
	encode(frameworkKey: FrameworkKey): BlockKey;
	/** Router hash of a block key, 0 to 2^64-1. The same key always gives the same hash. */
	decode(key: BlockKey): RouterHash;
	/**
	 * The one full key a router hash names here. Absent: this adapter cannot resolve hashes (`unsupported`).
	 * @throws HashNotFoundError when no key is known, AmbiguousHashError when several are.
	 */
	decodeFromRouter?(hash: RouterHash): BlockKey;
	/**
	 * Optional: the answers for a whole message at once, in the order of `hashes`. Must agree with `decodeFromRouter`;
	 * an adapter over a large table can hide memory latency this way.
	 */
	decodeManyFromRouter?(hashes: readonly RouterHash[]): readonly RouterLookup[];
}
