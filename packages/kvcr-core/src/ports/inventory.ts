/** Outgoing views of managed G2 for routers and capacity managers. Called on the owner's side only. */
import type { CacheTier } from "./cache-policy.js";
import type { BlockKey } from "./names.js";

/** Blocks that appeared in, or left, a tier. Events of one key come in the order of its state changes. */
export interface InventoryEvent {
	/** Keys of the blocks; at least one. */
	readonly keys: readonly BlockKey[];
	/** Tier they came to, or left. */
	readonly tier: CacheTier;
	/** True: they left; false: they became available. */
	readonly removed: boolean;
}

/** Receives inventory events. A sink that throws is reported once and does not disturb the cache. */
export type InventorySink = (event: InventoryEvent) => void;

/**
 * Told once per pool when its reclaimable slots fall under the low watermark; armed again once they are above it.
 * `needed` has one entry per pool concerned.
 */
export type CapacityListener = (
	needed: readonly {
		/** Name of the pool. */
		readonly pool: string;
		/** Slots missing to reach the watermark. */
		readonly slots: number;
	}[],
) => void;
