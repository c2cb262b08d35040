/** One pool of equally large slots: which are free, and how many could become free. */
import { InvalidArgumentError, type MemoryRegion } from "../ports/index.js";
import { SlotError } from "./errors.js";

/** A pool as the owner of the memory describes it. */
export interface PoolSpec {
	/** Name of the pool: no ":", and empty only when it is the single pool. */
	readonly name: string;
	/** Memory of the pool; one element is one slot. */
	readonly region: MemoryRegion;
}

/** Largest number of slots in one pool. */
const MAX_SLOTS = 0x7fff_ffff;

/**
 * Free list and counters of one pool. Every slot is in exactly one place: free, reclaimable (part of a ready,
 * unclaimed block), quarantined (part of a discarded fill that may still be written), or in use.
 */
export class SlotPool {
	readonly name: string;
	readonly region: MemoryRegion;
	/** Position among the pools of the cache. */
	readonly index: number;
	/** Number of slots. */
	readonly total: number;
	/** Slots of ready blocks without claims. */
	reclaimable = 0;
	/** Slots of discarded fills. */
	quarantined = 0;
	/** A stack whose first `#free` entries are the free slots. */
	readonly #stack: Int32Array;
	readonly #isFree: Uint8Array;
	#free: number;

	constructor(spec: PoolSpec, index: number) {
		const total = spec.region.elementCount;
		if (!Number.isInteger(total) || total < 1 || total > MAX_SLOTS) {
			throw new InvalidArgumentError(
				"ManagedCache",
				`pools[${index}].region.elementCount`,
				total,
				`an integer from 1 to ${MAX_SLOTS}`,
			);
		}
		this.name = spec.name;
		this.region = spec.region;
		this.index = index;
		this.total = total;
		this.#free = total;
		this.#isFree = new Uint8Array(total).fill(1);
		this.#stack = new Int32Array(total);
		// Low slots leave first: a pool that is never full touches only part of its memory.
		for (let i = 0; i < total; i++) this.#stack[i] = total - 1 - i;
	}

	/** Number of free slots. */
	get free(): number {
		return this.#free;
	}

	/** Slots that an admission could get: free ones and those of ready, unclaimed blocks. */
	get available(): number {
		return this.#free + this.reclaimable;
	}

	/** Takes a free slot. @throws SlotError when there is none. */
	take(): number {
		if (this.#free === 0)
			throw new SlotError(
				"SlotPool.take",
				this.name,
				-1,
				"does not exist: none is free",
			);
		this.#free -= 1;
		const slot = this.#stack[this.#free] as number;
		this.#isFree[slot] = 0;
		return slot;
	}

	/** Gives a slot back. @throws SlotError when it is free already or outside the pool; nothing changes then. */
	release(slot: number): void {
		const state = this.#isFree[slot];
		if (state === undefined)
			throw new SlotError(
				"SlotPool.release",
				this.name,
				slot,
				"does not exist",
			);
		if (state === 1)
			throw new SlotError(
				"SlotPool.release",
				this.name,
				slot,
				"is free already",
			);
		this.#isFree[slot] = 1;
		this.#stack[this.#free] = slot;
		this.#free += 1;
	}

	/** Whether a slot is on the free list. */
	isFree(slot: number): boolean {
		return this.#isFree[slot] === 1;
	}

	/** The free slots in the order of the list, for consistency checks. */
	freeSlots(): readonly number[] {
		return Array.from(this.#stack.subarray(0, this.#free));
	}
}

/** Builds the pools of a cache. @throws InvalidArgumentError for names that are unusable or not unique. */
export function createPools(specs: readonly PoolSpec[]): SlotPool[] {
	if (!Array.isArray(specs) || specs.length === 0)
		throw new InvalidArgumentError(
			"ManagedCache",
			"pools",
			specs,
			"a non-empty array",
		);
	const names = new Set<string>();
	return specs.map((spec, i) => {
		const usable =
			typeof spec.name === "string" &&
			!spec.name.includes(":") &&
			(spec.name !== "" || specs.length === 1) &&
			!names.has(spec.name);
		if (!usable) {
			throw new InvalidArgumentError(
				"ManagedCache",
				`pools[${i}].name`,
				spec.name,
				'a unique string without ":", empty only for a single pool',
			);
		}
		names.add(spec.name);
		return new SlotPool(spec, i);
	});
}
