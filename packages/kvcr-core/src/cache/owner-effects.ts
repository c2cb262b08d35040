/** Notes what policies and the inventory will be told once the owner is here to be told. */
import type { InventoryBatcher } from "./inventory-batcher.js";
import type { PolicyGuard } from "./policy-guard.js";
import type { ResidencyRecord } from "./residency.js";

/** A first-in-first-out list of blocks that came and went. Nothing is noted when nobody listens. */
export class OwnerEffects {
	readonly #policy: PolicyGuard;
	readonly #inventory: InventoryBatcher | undefined;
	/** Two lists of equal length, to note an effect without an object. */
	readonly #records: ResidencyRecord[] = [];
	readonly #removed: boolean[] = [];
	#applying = false;

	constructor(policy: PolicyGuard, inventory: InventoryBatcher | undefined) {
		this.#policy = policy;
		this.#inventory = inventory;
	}

	/** True when {@link apply} has something to tell. */
	get pending(): boolean {
		return this.#records.length > 0;
	}

	/** Notes an effect. True when there is somebody to tell. */
	note(record: ResidencyRecord, removed: boolean): boolean {
		const heard = removed ? this.#policy.seesRemove : this.#policy.seesIngest;
		if (!heard && this.#inventory === undefined) return false;
		this.#records.push(record);
		this.#removed.push(removed);
		return true;
	}

	/** Tells the policy, and puts the changes into the inventory's batch. */
	apply(): void {
		if (this.#applying || this.#records.length === 0) return;
		// Told while telling: a callback changed the cache, and its effects come behind those being told.
		this.#applying = true;
		const count = this.#records.length;
		for (let i = 0; i < count; i++) {
			const record = this.#records[i] as ResidencyRecord;
			const removed = this.#removed[i] as boolean;
			this.#inventory?.record(record.keyText, removed);
			if (removed) this.#policy.onRemove(record);
			else this.#policy.onIngest(record);
		}
		this.#records.splice(0, count);
		this.#removed.splice(0, count);
		this.#applying = false;
	}
}
