/** Retired tiers, and the sweep that takes them out of a store a few keys at a time. */
import type { KeyStore } from "./key-store.js";

/** See the comment at the top of this file. */
export class TierSweep {
	readonly #store: KeyStore;
	/** Keys of these tiers are on their way out and count as absent. */
	#retired = 0;
	/** Lengths still to visit, and how many keys of the first one are left. */
	#lengths: number[] = [];
	#left = 0;

	constructor(store: KeyStore) {
		this.#store = store;
	}

	/** Tiers whose keys count as absent. */
	get retired(): number {
		return this.#retired;
	}

	/** Retires further tiers. A sweep under way has passed keys that are in them, so it begins again. */
	retire(tiers: number): void {
		this.#retired |= tiers;
		this.#lengths = this.#store.lengths();
		this.#left = this.#store.countOfLength(this.#lengths[0] ?? 0);
	}

	/** Visits at most `maxKeys` keys. False once all were visited: the tiers are still retired then, until {@link end}. */
	step(maxKeys: number): boolean {
		const store = this.#store;
		let budget = maxKeys;
		while (this.#lengths.length > 0) {
			const length = this.#lengths[0] as number;
			// From the end: a freed key is replaced by the last one, which has been visited or is newer than the sweep.
			let left = Math.min(this.#left, store.countOfLength(length));
			for (; left > 0 && budget > 0; budget--) {
				left--;
				const ref = store.refAt(length, left);
				const tiers = store.tiersOf(ref) & ~this.#retired;
				if (tiers !== 0) store.setTiers(ref, tiers);
				else store.free(ref);
			}
			this.#left = left;
			if (left > 0) return true;
			this.#lengths.shift();
			this.#left = store.countOfLength(this.#lengths[0] ?? 0);
		}
		return false;
	}

	/** Ends the sweep: no tier is retired any more. Gives those that were. */
	end(): number {
		const retired = this.#retired;
		this.#retired = 0;
		this.#lengths = [];
		this.#left = 0;
		return retired;
	}
}
