/**
 * What one publisher's events are credited to. Every publisher has tiers of its own in the map, one per place it speaks
 * of, so that a block removed by one is still there for another, and a lost stream takes only its own with it.
 */

import { MapFullError, TierLimitError } from "../errors.js";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import type { TierMask } from "../reverse-map/tiers.js";
import type { BlockEvent, BlockPlace, KvEvent } from "./decode.js";

/** Counters of what was applied. */
export interface CreditStats {
	/** Blocks of stores that the map took. */
	storedBlocks: number;
	/** Blocks of removals, known to the map or not. */
	removedBlocks: number;
	/** `AllBlocksCleared` events. */
	cleared: number;
	/** Stores dropped because all tiers of the map are taken, or the publisher has named too many places. */
	tierLimit: number;
	/** Stores dropped, wholly or in part, because the map is full. */
	mapFull: number;
}

/**
 * Places one publisher may speak of at a time: more than an engine and its tiers have, and few enough that an odd one does
 * not take the tiers of all others.
 */
const MAX_PLACES = 8;

/** See the comment at the top of this file. */
export class PublisherCredit {
	readonly #map: ReverseHashMap;
	readonly #sweeper: Sweeper;
	readonly #tiers = new Map<string, TierMask>();
	readonly #stats: CreditStats = {
		storedBlocks: 0,
		removedBlocks: 0,
		cleared: 0,
		tierLimit: 0,
		mapFull: 0,
	};

	constructor(map: ReverseHashMap, sweeper: Sweeper) {
		this.#map = map;
		this.#sweeper = sweeper;
	}

	stats(): CreditStats {
		return { ...this.#stats };
	}

	/**
	 * Applies events in order. A store for which there is no room costs itself alone: what comes after it, removals above
	 * all, counts.
	 */
	apply(events: readonly KvEvent[]): void {
		for (const event of events) {
			switch (event.kind) {
				case "stored":
					this.#stored(event);
					break;
				case "removed":
					this.#removed(event);
					break;
				case "cleared":
					this.#stats.cleared++;
					this.clear();
					break;
			}
		}
	}

	/** Takes everything credited to this publisher out of the map. */
	clear(): void {
		let mask = 0;
		for (const tier of this.#tiers.values()) mask |= tier;
		this.#tiers.clear();
		if (mask === 0) return;
		this.#map.retireTiers(mask >>> 0);
		this.#sweeper.start();
	}

	#stored({ hashes, group, place }: BlockEvent): void {
		const tier = this.#tierOf(place);
		if (tier === 0) return;
		let stored = 0;
		try {
			for (let expected = 0; stored < hashes.length; stored++) {
				if (stored === expected)
					expected = this.#map.expectHashes(hashes, stored);
				const hash = hashes[stored] as Uint8Array;
				this.#map.addHash(hash, 0, hash.length, group, tier);
			}
		} catch (error) {
			if (!(error instanceof MapFullError)) throw error;
			this.#stats.mapFull++;
		} finally {
			this.#stats.storedBlocks += stored;
		}
	}

	#removed({ hashes, group, place }: BlockEvent): void {
		this.#stats.removedBlocks += hashes.length;
		const tier = this.#tiers.get(nameOf(place));
		// Nothing was ever stored there.
		if (tier === undefined) return;
		for (let removed = 0, expected = 0; removed < hashes.length; removed++) {
			if (removed === expected)
				expected = this.#map.expectHashes(hashes, removed);
			const hash = hashes[removed] as Uint8Array;
			this.#map.removeHash(hash, 0, hash.length, group, tier);
		}
	}

	#tierOf(place: BlockPlace): TierMask {
		const name = nameOf(place);
		const known = this.#tiers.get(name);
		if (known !== undefined) return known;
		if (this.#tiers.size >= MAX_PLACES) {
			this.#stats.tierLimit++;
			return 0;
		}
		try {
			const tier = this.#map.reserveTier();
			this.#tiers.set(name, tier);
			return tier;
		} catch (error) {
			if (!(error instanceof TierLimitError)) throw error;
			this.#stats.tierLimit++;
			return 0;
		}
	}
}

function nameOf({ medium, locality, ownership }: BlockPlace): string {
	return JSON.stringify([medium, locality, ownership]);
}

/** Keys visited in one go: about a millisecond. */
const SWEEP_KEYS = 2000;

/** Sweeps retired tiers out of a map, a little at a time, between other work. Does not keep the process alive. */
export class Sweeper {
	readonly #map: ReverseHashMap;
	#scheduled: NodeJS.Immediate | undefined;

	constructor(map: ReverseHashMap) {
		this.#map = map;
	}

	/** Begins a sweep, or goes on with the one under way. */
	start(): void {
		if (this.#scheduled !== undefined) return;
		if (!this.#map.sweep(SWEEP_KEYS)) return;
		this.#scheduled = setImmediate(() => {
			this.#scheduled = undefined;
			this.start();
		});
		this.#scheduled.unref();
	}
}
