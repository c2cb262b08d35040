/**
 * Tier bits of a reverse hash map. A bit stands for one reporter of presence: the five tier names of core's inventory
 * have fixed bits, others are reserved at run time (a publisher's medium and owner, see the event intake).
 */
import {
	type CacheTier,
	InvalidArgumentError,
	type InventorySink,
} from "kvcr-core";
import { TierLimitError } from "../errors.js";
import type { ReverseHashMap } from "./reverse-hash-map.js";

/** Set of tiers: bit 0 to 31 of an unsigned integer. */
export type TierMask = number;

/** Bits of the tiers core's inventory reports. */
export const TIER_BITS: Readonly<Record<CacheTier, TierMask>> = {
	HBM: 1,
	FW_DRAM: 2,
	DRAM: 4,
	REMOTE_G2: 8,
	G3: 16,
};

/** How many tiers a map can tell apart. */
export const MAX_TIERS = 32;

const FIXED = 0b1_1111;

/** Feeds core's inventory events into a map: pass the result as `inventorySink`. */
export function inventoryFeed(map: ReverseHashMap): InventorySink {
	return ({ keys, tier, removed }) => {
		const bit = TIER_BITS[tier];
		if (removed) map.removeMany(keys, bit);
		else map.addMany(keys, bit);
	};
}

/** @throws InvalidArgumentError for anything but 1 to 2^32-1. */
export function checkTiers(tiers: number, operation: string): void {
	if (!(tiers > 0 && tiers <= 0xffff_ffff && Number.isInteger(tiers)))
		throw new InvalidArgumentError(
			operation,
			"tiers",
			tiers,
			"a mask of 1 to 32 tier bits",
		);
}

/** Which bits are taken. */
export class TierRegister {
	#taken = FIXED;

	/** Takes the lowest free bit. @throws TierLimitError when there is none. */
	reserve(operation: string): TierMask {
		for (let bit = 0; bit < MAX_TIERS; bit++) {
			if ((this.#taken & (1 << bit)) !== 0) continue;
			this.#taken |= 1 << bit;
			return (1 << bit) >>> 0;
		}
		throw new TierLimitError(operation, MAX_TIERS);
	}

	/** Gives bits back; the fixed ones stay taken. */
	release(bits: TierMask): void {
		this.#taken = (this.#taken & ~bits) | FIXED;
	}
}
