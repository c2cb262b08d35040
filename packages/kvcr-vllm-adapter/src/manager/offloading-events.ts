/** Inventory of core as offloading events of the engine. */
import type { CacheTier, InventoryEvent } from "kvcr-core";
import type { OffloadingEvent } from "./contract.js";

/** Collects events until the engine takes them. */
export class OffloadingEvents {
	#events: OffloadingEvent[] = [];

	add({ keys, tier, removed }: InventoryEvent): void {
		const medium = mediumOf(tier);
		if (medium === undefined || keys.length === 0) return;
		this.#events.push({
			keys,
			medium,
			removed,
			ownership: "kvcr",
			removalExpected: true,
		});
	}

	/** Hands out what was collected, in order. */
	take(): OffloadingEvent[] {
		const events = this.#events;
		this.#events = [];
		return events;
	}
}

/** The medium an event of a tier is about; none for memory that is not this tier's own. */
function mediumOf(tier: CacheTier): OffloadingEvent["medium"] | undefined {
	switch (tier) {
		case "DRAM":
			return "CPU";
		case "G3":
			return "STORAGE";
		case "HBM":
		case "FW_DRAM":
		case "REMOTE_G2":
			return undefined;
	}
}
