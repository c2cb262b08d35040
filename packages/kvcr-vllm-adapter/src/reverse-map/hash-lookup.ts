/** Answers about router hashes, one by one and in batches. Keys that are only in retired tiers count as absent. */
import {
	type BlockKey,
	type RouterHash,
	type RouterLookup,
	routerHash,
} from "kvcr-core";
import { isList } from "./collision-chains.js";
import { BATCH, type KeyStore } from "./key-store.js";
import type { TierSweep } from "./tier-sweep.js";
import type { TierMask } from "./tiers.js";

/** Answer of a status look-up. */
export type HashStatus = "unique" | "not_found" | "ambiguous_hash";

/** One full key of a hash, with the tiers it is present in. */
export interface HashCandidate {
	/** The full key. */
	readonly key: BlockKey;
	/** The tiers that have it, one bit each. */
	readonly tiers: TierMask;
}

/** A list is not followed further than this during a sweep: beyond it a hash counts as ambiguous. */
const MAX_SWEEP_WALK = 1024;

/** See the comment at the top of this file. */
export class HashLookup {
	readonly #store: KeyStore;
	readonly #sweep: TierSweep;
	/** The hash at hand, and its two words in the order of the machine. */
	readonly #hash = new BigUint64Array(1);
	readonly #words = new Int32Array(this.#hash.buffer);
	/** Which of them is the high one. */
	readonly #high: number;
	readonly #pairs = new Int32Array(2 * BATCH);
	readonly #values = new Int32Array(BATCH);
	/** Keys of a batch are touched before any is copied, so that the waits for memory overlap. */
	readonly #touched = new Int32Array(BATCH);

	constructor(store: KeyStore, sweep: TierSweep) {
		this.#store = store;
		this.#sweep = sweep;
		this.#hash[0] = 1n;
		this.#high = this.#words[0] === 1 ? 1 : 0;
	}

	/** Whether a hash names no key, one, or several. */
	status(hash: RouterHash): HashStatus {
		return statusOf(this.#live(this.#valueOf(hash)));
	}

	/** {@link status} for many hashes. */
	statusMany(hashes: readonly RouterHash[]): HashStatus[] {
		const answers = new Array<HashStatus>(hashes.length);
		for (let from = 0; from < hashes.length; from += BATCH) {
			const count = this.#valuesOf(hashes, from);
			for (let i = 0; i < count; i++)
				answers[from + i] = statusOf(this.#live(this.#values[i] as number));
		}
		return answers;
	}

	/** The one key of a hash, or why there is none. */
	lookup(hash: RouterHash): RouterLookup {
		return this.#answer(this.#live(this.#valueOf(hash)));
	}

	/** {@link lookup} for many hashes. */
	lookupMany(hashes: readonly RouterHash[]): RouterLookup[] {
		const answers = new Array<RouterLookup>(hashes.length);
		const values = this.#values;
		for (let from = 0; from < hashes.length; from += BATCH) {
			const count = this.#valuesOf(hashes, from);
			for (let i = 0; i < count; i++) {
				const value = values[i] as number;
				if (value !== 0 && !isList(value))
					this.#touched[i] = this.#store.touch(value);
			}
			for (let i = 0; i < count; i++)
				answers[from + i] = this.#answer(this.#live(values[i] as number));
		}
		return answers;
	}

	/** Number of keys of a hash, those in retired tiers included. */
	count(hash: RouterHash): number {
		return this.#store.countOf(this.#valueOf(hash));
	}

	/** Every key of a hash. */
	candidates(hash: RouterHash): HashCandidate[] {
		const found: HashCandidate[] = [];
		for (const ref of this.#store.refsOf(this.#valueOf(hash))) {
			const tiers = (this.#store.tiersOf(ref) & ~this.#sweep.retired) >>> 0;
			if (tiers !== 0) found.push({ key: this.#store.keyOf(ref), tiers });
		}
		return found;
	}

	#answer(value: number): RouterLookup {
		if (value === 0) return "not_found";
		return isList(value) ? "ambiguous_hash" : this.#store.keyOf(value);
	}

	/** The value without keys of retired tiers. */
	#live(value: number): number {
		return this.#sweep.retired === 0 || value === 0
			? value
			: this.#liveSlow(value);
	}

	#liveSlow(value: number): number {
		let live = 0;
		let seen = 0;
		for (const ref of this.#store.refsOf(value)) {
			if (++seen > MAX_SWEEP_WALK) return value;
			if ((this.#store.tiersOf(ref) & ~this.#sweep.retired) === 0) continue;
			if (live !== 0) return value;
			live = ref;
		}
		return live;
	}

	#valueOf(hash: RouterHash): number {
		this.#setHash(hash);
		const words = this.#words;
		const high = this.#high;
		return this.#store.valueOf(
			words[high] as number,
			words[high ^ 1] as number,
		);
	}

	#valuesOf(hashes: readonly RouterHash[], from: number): number {
		const count = Math.min(BATCH, hashes.length - from);
		const pairs = this.#pairs;
		const words = this.#words;
		const high = this.#high;
		for (let i = 0; i < count; i++) {
			this.#setHash(hashes[from + i] as RouterHash);
			pairs[2 * i] = words[high] as number;
			pairs[2 * i + 1] = words[high ^ 1] as number;
		}
		this.#store.valuesOf(pairs, count, this.#values);
		return count;
	}

	/** Splits a hash into words. A value outside 64 bits would be cut silently, so it is refused here. */
	#setHash(hash: RouterHash): void {
		this.#hash[0] =
			typeof hash === "bigint" && BigInt.asUintN(64, hash) === hash
				? hash
				: routerHash(hash, "ReverseHashMap.lookup", "hash");
	}
}

function statusOf(value: number): HashStatus {
	if (value === 0) return "not_found";
	return isList(value) ? "ambiguous_hash" : "unique";
}
