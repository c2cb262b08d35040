/** Placement policy of managed G2. Every method is synchronous; one that throws fails only the admission at hand. */
import type { BlockKey } from "./names.js";

/** Tier names, as they appear on the wire and in events. */
export type CacheTier = "HBM" | "FW_DRAM" | "DRAM" | "REMOTE_G2" | "G3";

/** What a policy may know about a block. */
export interface BlockMeta {
	/** Its full key. */
	readonly key: BlockKey;
	/** Bytes of all pieces together. */
	readonly sizeBytes: number;
	/** How often the block was claimed since it came. */
	readonly accessCount: number;
	/** Clock time of the last claim in milliseconds; of the admission when there was none. */
	readonly lastAccess: number;
	/** Clock time of the admission in milliseconds. */
	readonly admittedAt: number;
}

/** Where the bytes of an admission come from. */
export type IngestSource = "deposit" | "fetch";

/** An admission that found too few reclaimable slots. */
export interface PlacementFailure {
	/** What the slots were for. */
	readonly source: IngestSource;
	/** Pools that are short, with the number of missing slots. */
	readonly missing: ReadonlyMap<string, number>;
	/** How often this admission has failed so far, from 1. */
	readonly failureCount: number;
}

/** Decides what enters managed G2, what leaves it first, and what to do when it is full. */
export interface KVCachePolicy {
	/** Whether to admit a block. A declined deposit reports `DROPPED`; a declined fetch fails. */
	decideIngest(meta: BlockMeta, source: IngestSource): "keep" | "drop";
	/** Rank among evictable blocks: lower goes first, equal scores in order of admission to the queue. */
	evictionScore(meta: BlockMeta): number;
	/** Last word on a candidate: `"keep"` passes over it, once per allocation. */
	decideEviction(meta: BlockMeta): "evict" | "keep";
	/** Seen after a block became ready. */
	onIngest?(meta: BlockMeta): void;
	/** Seen after a block left managed G2. */
	onRemove?(meta: BlockMeta): void;
	/** What to do when slots are short: `"fail"` at once, or `"wait"` for capacity until the operation's deadline. */
	decideRecovery(failure: PlacementFailure): "fail" | "wait";
}
