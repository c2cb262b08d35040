/**
 * What one publisher's events are credited to. Every publisher has tiers of its own in the map, one per place it speaks
 * of, so that a block removed by one is still there for another, and a lost stream takes only its own with it.
 *
 * Tiers that were cleared come free at the end of a sweep. A store that finds none free waits for that, and with it, in
 * order, everything after it: see {@link PublisherCredit.held}.
 */

import { MapFullError, TierLimitError } from "../errors.js";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import type { TierMask } from "../reverse-map/tiers.js";
import type { BlockEvent, BlockPlace, KvEvent } from "./decode.js";
import type { Sweeper } from "./sweeper.js";

/** Counters of what was applied. */
export interface CreditStats {
	/** Blocks of stores that the map took. */
	storedBlocks: number;
	/** Blocks of removals, known to the map or not. */
	removedBlocks: number;
	/** `AllBlocksCleared` events. */
	cleared: number;
	/** Stores dropped because all tiers of the map are taken for good, or the publisher has named too many places. */
	tierLimit: number;
	/** Stores dropped, wholly or in part, because the map is full. */
	mapFull: number;
}

/**
 * Places one publisher may speak of at a time: more than an engine and its tiers have, and few enough that an odd one does
 * not take the tiers of all others.
 */
const MAX_PLACES = 8;

/** What whoever feeds a credit is told. Must not throw. */
export interface CreditObserver {
	/** Events could not be applied, for a reason nobody foresaw. Nothing is credited any more. */
	failed(error: unknown): void;
	/** Nothing is held any more. */
	freed(): void;
}

/** Events that wait, from index `at` on. */
interface Held {
	readonly events: readonly KvEvent[];
	at: number;
}

/** See the comment at the top of this file. */
export class PublisherCredit {
	readonly #map: ReverseHashMap;
	readonly #sweeper: Sweeper;
	readonly #observer: CreditObserver;
	/** What waits for a free tier, oldest first. */
	#held: Held[] = [];
	/** Whether the end of a sweep is awaited. */
	#awaiting = false;
	#closed = false;
	readonly #tiers = new Map<string, TierMask>();
	readonly #stats: CreditStats = {
		storedBlocks: 0,
		removedBlocks: 0,
		cleared: 0,
		tierLimit: 0,
		mapFull: 0,
	};

	constructor(map: ReverseHashMap, sweeper: Sweeper, observer: CreditObserver) {
		this.#map = map;
		this.#sweeper = sweeper;
		this.#observer = observer;
	}

	stats(): CreditStats {
		return { ...this.#stats };
	}

	/** Whether events wait. Whoever brings them should bring no more for now: what comes is kept, without a bound. */
	get held(): boolean {
		return this.#held.length > 0;
	}

	/**
	 * Applies events in order, at once or as soon as a tier is free. A store for which there is no room costs itself alone:
	 * what comes after it, removals above all, counts. Does nothing once closed. Never throws.
	 */
	apply(events: readonly KvEvent[]): void {
		if (this.#closed) return;
		this.#held.push({ events, at: 0 });
		if (this.#held.length === 1) this.#go();
	}

	/** Takes everything credited to this publisher out of the map, and drops what waits. Never throws. */
	clear(): void {
		const held = this.#held.length > 0;
		this.#held = [];
		try {
			this.#retire();
		} catch (error) {
			this.#sweeper.report(error);
		}
		if (held) this.#observer.freed();
	}

	/** Clears for good: nothing is credited any more. */
	close(): void {
		this.#closed = true;
		this.clear();
	}

	#go(): void {
		try {
			for (let head = this.#held[0]; head !== undefined; head = this.#held[0]) {
				for (; head.at < head.events.length; head.at++)
					if (!this.#applied(head.events[head.at] as KvEvent)) return;
				this.#held.shift();
			}
		} catch (error) {
			// What the batch removed may still be there.
			this.clear();
			this.#observer.failed(error);
		}
	}

	/** False when the event must wait. */
	#applied(event: KvEvent): boolean {
		switch (event.kind) {
			case "stored":
				return this.#stored(event);
			case "removed":
				this.#removed(event);
				return true;
			case "cleared":
				this.#stats.cleared++;
				this.#retire();
				return true;
		}
	}

	#retire(): void {
		let mask = 0;
		for (const tier of this.#tiers.values()) mask |= tier;
		if (mask === 0) return;
		this.#map.retireTiers(mask >>> 0);
		this.#tiers.clear();
		this.#sweeper.start();
	}

	/** A sweep has ended. */
	#resume(): void {
		this.#awaiting = false;
		if (!this.held) return;
		this.#go();
		if (!this.held) this.#observer.freed();
	}

	#stored({ hashes, group, place }: BlockEvent): boolean {
		const tier = this.#tierOf(place);
		if (tier === undefined) return false;
		if (tier === 0) return true;
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
		return true;
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

	/** The tier of a place: 0 where it gets none, `undefined` where one is going to come free. */
	#tierOf(place: BlockPlace): TierMask | undefined {
		const name = nameOf(place);
		const known = this.#tiers.get(name);
		if (known !== undefined) return known;
		if (this.#tiers.size >= MAX_PLACES) {
			this.#stats.tierLimit++;
			return 0;
		}
		let tier = this.#reserve();
		if (tier === undefined) {
			if (this.#awaiting) return undefined;
			this.#awaiting = this.#sweeper.wait(() => this.#resume());
			if (this.#awaiting) return undefined;
			// The wait itself may have ended a sweep that nobody drove.
			tier = this.#reserve();
		}
		if (tier === undefined) {
			this.#stats.tierLimit++;
			return 0;
		}
		this.#tiers.set(name, tier);
		return tier;
	}

	#reserve(): TierMask | undefined {
		try {
			return this.#map.reserveTier();
		} catch (error) {
			if (!(error instanceof TierLimitError)) throw error;
			return undefined;
		}
	}
}

function nameOf({ medium, locality, ownership }: BlockPlace): string {
	return JSON.stringify([medium, locality, ownership]);
}
