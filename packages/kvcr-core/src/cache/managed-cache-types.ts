/** What goes into managed G2, and what it says about itself. */
import type {
	CapacityListener,
	Clock,
	InventorySink,
	KVCachePolicy,
	Logger,
	MemoryRegion,
} from "../ports/index.js";
import type { PoolSpec } from "./slot-pool.js";

/** Settings of managed G2. */
export interface ManagedCacheOptions {
	/** At least one pool; names without ":", empty only for a single one. */
	readonly pools: readonly PoolSpec[];
	/** @default a new `LruPolicy` */
	readonly policy?: KVCachePolicy | undefined;
	readonly clock: Clock;
	readonly logger: Logger;
	readonly inventorySink?: InventorySink | undefined;
	/** Least time between a change and its inventory event, in milliseconds. @default 0: at once */
	readonly inventoryReportIntervalMs?: number | undefined;
	readonly capacityListener?: CapacityListener | undefined;
	/** Percentage of a pool's slots under which `capacityListener` is told. @default 0: never */
	readonly capacityLowWatermarkPercent?: number | undefined;
	/** Called when there is work for {@link ManagedCache.settle}; at most once between two of them. */
	readonly onOwnerWork?: (() => void) | undefined;
}

/** Where one piece of a block is. */
export interface Piece {
	readonly label: string;
	/** Name of the pool. */
	readonly pool: string;
	readonly region: MemoryRegion;
	/** Element of the region. */
	readonly slot: number;
}

/** Slots of one pool: `total` is the sum of the others. */
export interface PoolStats {
	/** Name of the pool. */
	readonly pool: string;
	/** Slots it has. */
	readonly total: number;
	/** Slots without a block. */
	readonly free: number;
	/** Part of ready blocks without claims. */
	readonly reclaimable: number;
	/** Part of fills, or of ready blocks with claims. */
	readonly claimed: number;
	/** Part of discarded fills that may still be written. */
	readonly quarantined: number;
}

/** A snapshot of managed G2. */
export interface ManagedCacheStats {
	/** One entry per pool that has slots. */
	readonly pools: readonly PoolStats[];
	/** Residencies by state. */
	readonly ready: number;
	/** Blocks whose bytes are on their way. */
	readonly filling: number;
	/** Blocks of failed fills whose slots may still be written. */
	readonly discarding: number;
	/** Ready residencies that go at their last unclaim. */
	readonly retiring: number;
	/** Claims on blocks, all together. */
	readonly claims: number;
	/** Release handles that were not released. */
	readonly handles: number;
	/** Admissions that wait for capacity. */
	readonly waiting: number;
}
