/**
 * Which full keys a router hash names: the structure behind `decodeFromRouter`. Holds every key that inventory or KV
 * events report, with the tiers it is present in, in about 60 bytes per 36-byte key, and answers in a fraction of a
 * microsecond. Nothing in it grows or shrinks in steps larger than one segment or page.
 *
 * Events may repeat, and may come in any order between tiers: adding and removing are idempotent per tier.
 */
import {
	AmbiguousHashError,
	type BlockKey,
	checkObject,
	HashNotFoundError,
	InvalidArgumentError,
	type RouterHash,
	type RouterLookup,
} from "kvcr-core";
import {
	type HashCandidate,
	HashLookup,
	type HashStatus,
} from "./hash-lookup.js";
import { BATCH, KeyStore } from "./key-store.js";
import {
	checkKey,
	GROUP_BYTES,
	MAX_HASH_BYTES,
	MIN_HASH_BYTES,
	MIN_KEY_BYTES,
	wordAt,
} from "./packed-key.js";
import { TierSweep } from "./tier-sweep.js";
import { checkTiers, type TierMask, TierRegister } from "./tiers.js";

/** Figures of a map. */
export interface ReverseHashMapStats {
	/** Full keys held (during a sweep: including those only in retired tiers). */
	readonly keys: number;
	/** Distinct router hashes. */
	readonly hashes: number;
	/** Keys that share their hash with another one. */
	readonly collidingKeys: number;
	/** Bytes of all buffers. They are shared buffers, which `process.memoryUsage()` shows in `rss` only. */
	readonly bytes: number;
}

/** Options of a map. */
export interface ReverseHashMapOptions {
	/** Seed of the hash functions. @default random; set it only to repeat a run */
	readonly seed?: number;
}

/** See the comment at the top of this file. */
export class ReverseHashMap {
	readonly #store: KeyStore;
	readonly #sweep: TierSweep;
	readonly #lookup: HashLookup;
	readonly #tiers = new TierRegister();

	/**
	 * An empty map. Its buffers grow with it.
	 * @throws InvalidArgumentError for a seed that is no integer.
	 */
	constructor(options: ReverseHashMapOptions = {}) {
		checkOptions(options);
		this.#store = new KeyStore(options.seed);
		this.#sweep = new TierSweep(this.#store);
		this.#lookup = new HashLookup(this.#store, this.#sweep);
	}

	/** Number of full keys held. */
	get size(): number {
		return this.#store.size;
	}

	/** Figures of this map. */
	stats(): ReverseHashMapStats {
		const { size, hashes, collidingKeys, bytes } = this.#store;
		return { keys: size, hashes, collidingKeys, bytes };
	}

	/**
	 * Notes that a key is present in tiers. True when that is news for at least one of them.
	 * @throws InvalidArgumentError for a key or mask that is unusable; MapFullError beyond about a thousand million keys.
	 */
	add(key: Uint8Array, tiers: TierMask): boolean {
		checkKey(key, "ReverseHashMap.add", "key");
		checkTiers(tiers, "ReverseHashMap.add");
		this.#checkLive("ReverseHashMap.add", tiers);
		const hashBytes = key.length - GROUP_BYTES;
		const group = wordAt(key, hashBytes);
		const { retired } = this.#sweep;
		return this.#store.add(key, 0, hashBytes, group, tiers | 0, retired);
	}

	/**
	 * {@link add} for many keys, in their order; quicker per key than one by one. Gives how many were news.
	 * @throws as `add` does; nothing has changed then, except that a full map keeps what came before.
	 */
	addMany(keys: readonly Uint8Array[], tiers: TierMask): number {
		return this.#many("ReverseHashMap.addMany", keys, tiers, (key) =>
			this.add(key, tiers),
		);
	}

	/** {@link add} for the block hash at `source[offset, offset + hashBytes)` with a group index, without making a key. */
	addHash(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: TierMask,
	): boolean {
		checkHash("addHash", source, offset, hashBytes, group, tiers);
		this.#checkLive("ReverseHashMap.addHash", tiers);
		const { retired } = this.#sweep;
		return this.#store.add(
			source,
			offset,
			hashBytes,
			group | 0,
			tiers | 0,
			retired,
		);
	}

	/**
	 * Notes that a key has left tiers; it goes when it is in no tier any more. True when it was in at least one of them.
	 * @throws InvalidArgumentError for a key or mask that is unusable.
	 */
	remove(key: Uint8Array, tiers: TierMask): boolean {
		checkKey(key, "ReverseHashMap.remove", "key");
		checkTiers(tiers, "ReverseHashMap.remove");
		const hashBytes = key.length - GROUP_BYTES;
		const group = wordAt(key, hashBytes);
		const { retired } = this.#sweep;
		return this.#store.remove(key, 0, hashBytes, group, tiers | 0, retired);
	}

	/** {@link remove} for many keys, in their order. Gives how many were in one of the tiers. */
	removeMany(keys: readonly Uint8Array[], tiers: TierMask): number {
		return this.#many("ReverseHashMap.removeMany", keys, tiers, (key) =>
			this.remove(key, tiers),
		);
	}

	/** {@link remove} for the block hash at `source[offset, offset + hashBytes)` with a group index. */
	removeHash(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: TierMask,
	): boolean {
		checkHash("removeHash", source, offset, hashBytes, group, tiers);
		const { retired } = this.#sweep;
		return this.#store.remove(
			source,
			offset,
			hashBytes,
			group | 0,
			tiers | 0,
			retired,
		);
	}

	/**
	 * Says that the block hashes from `from` on are about to be added or removed one by one: brings the places of the next
	 * ones into the cache, which makes that quicker. Gives up to which index; changes nothing.
	 * @throws InvalidArgumentError for hashes that are no bytes, and for a `from` that is no index of the array or its end.
	 */
	expectHashes(hashes: readonly Uint8Array[], from: number): number {
		const operation = "ReverseHashMap.expectHashes";
		checkArray(hashes, operation, "hashes");
		if (!(Number.isInteger(from) && from >= 0 && from <= hashes.length))
			throw new InvalidArgumentError(
				operation,
				"from",
				from,
				`an integer of 0 to ${hashes.length}`,
			);
		const to = Math.min(hashes.length, from + BATCH);
		for (let i = from; i < to; i++)
			if (!(hashes[i] instanceof Uint8Array))
				throw new InvalidArgumentError(
					operation,
					`hashes[${i}]`,
					hashes[i],
					"a Uint8Array",
				);
		return this.#expect(hashes, from, MIN_HASH_BYTES);
	}

	/** Tiers a key is present in, 0 for none. */
	tiersOf(key: Uint8Array): TierMask {
		checkKey(key, "ReverseHashMap.tiersOf", "key");
		const hashBytes = key.length - GROUP_BYTES;
		const group = wordAt(key, hashBytes);
		const ref = this.#store.find(key, 0, hashBytes, group);
		if (ref === 0) return 0;
		return (this.#store.tiersOf(ref) & ~this.#sweep.retired) >>> 0;
	}

	/** Whether a hash names no key, one, or several. */
	status(hash: RouterHash): HashStatus {
		return this.#lookup.status(hash);
	}

	/** {@link status} for many hashes, in their order. */
	statusMany(hashes: readonly RouterHash[]): HashStatus[] {
		checkArray(hashes, "ReverseHashMap.statusMany", "hashes");
		return this.#lookup.statusMany(hashes);
	}

	/** The one key a hash names, or why there is none. */
	lookup(hash: RouterHash): RouterLookup {
		return this.#lookup.lookup(hash);
	}

	/** {@link lookup} for many hashes, in their order; several times quicker per hash than one by one. */
	lookupMany(hashes: readonly RouterHash[]): RouterLookup[] {
		checkArray(hashes, "ReverseHashMap.lookupMany", "hashes");
		return this.#lookup.lookupMany(hashes);
	}

	/**
	 * The one key a hash names.
	 * @throws HashNotFoundError, AmbiguousHashError
	 */
	resolve(hash: RouterHash): BlockKey {
		const answer = this.lookup(hash);
		if (answer === "not_found") throw new HashNotFoundError(hash);
		if (answer === "ambiguous_hash")
			throw new AmbiguousHashError(hash, this.#lookup.count(hash));
		return answer;
	}

	/** Every key a hash names. For diagnostics and tests: takes time in proportion to their number. */
	candidates(hash: RouterHash): HashCandidate[] {
		return this.#lookup.candidates(hash);
	}

	/** Forgets every key at once. Reserved tiers stay reserved, retired ones are free again. */
	clear(): void {
		this.#store.clear();
		this.#tiers.release(this.#sweep.end());
	}

	/**
	 * Reserves a tier bit for a reporter of its own, e.g. one publisher's medium. See `tiers.ts` for the bits that are taken
	 * from the start.
	 * @throws TierLimitError when all 32 are taken.
	 */
	reserveTier(): TierMask {
		return this.#tiers.reserve("ReverseHashMap.reserveTier");
	}

	/**
	 * Empties tiers: from now on no key counts as present in them. The memory comes back by calls of {@link sweep}, after
	 * which reserved bits among them can be reserved again. Until then nothing may be added in these tiers.
	 */
	retireTiers(tiers: TierMask): void {
		checkTiers(tiers, "ReverseHashMap.retireTiers");
		this.#sweep.retire(tiers);
	}

	/**
	 * Takes back memory of retired tiers, visiting at most `maxKeys` keys (about 0.2 µs each, 1 µs for one that goes).
	 * True when there is more to do.
	 * @throws InvalidArgumentError for anything but a positive integer, with which a sweep would never end.
	 */
	sweep(maxKeys: number): boolean {
		if (!(Number.isInteger(maxKeys) && maxKeys > 0))
			throw new InvalidArgumentError(
				"ReverseHashMap.sweep",
				"maxKeys",
				maxKeys,
				"a positive integer",
			);
		if (this.#sweep.step(maxKeys)) return true;
		this.#tiers.release(this.#sweep.end());
		return false;
	}

	#checkLive(operation: string, tiers: TierMask): void {
		if ((tiers & this.#sweep.retired) !== 0)
			throw new InvalidArgumentError(
				operation,
				"tiers",
				tiers,
				"free of retired tiers",
			);
	}

	/** Changes one key after the other, all of them checked before the first. Gives how many changes were news. */
	#many(
		operation: string,
		keys: readonly Uint8Array[],
		tiers: TierMask,
		change: (key: Uint8Array) => boolean,
	): number {
		checkArray(keys, operation, "keys");
		for (const key of keys) checkKey(key, operation, "keys");
		checkTiers(tiers, operation);
		let news = 0;
		for (let i = 0; i < keys.length; i++) {
			if (i % BATCH === 0) this.#expect(keys, i, MIN_KEY_BYTES);
			if (change(keys[i] as Uint8Array)) news++;
		}
		return news;
	}

	/** `tailBytes` is how far before its end the router hash of each begins. */
	#expect(
		keys: readonly Uint8Array[],
		from: number,
		tailBytes: number,
	): number {
		const to = Math.min(keys.length, from + BATCH);
		this.#store.expect(keys, from, to, tailBytes);
		return to;
	}
}

function checkOptions(options: ReverseHashMapOptions): void {
	checkObject("new ReverseHashMap", "options", options);
	const { seed } = options;
	if (seed !== undefined && !Number.isSafeInteger(seed))
		throw new InvalidArgumentError(
			"new ReverseHashMap",
			"options.seed",
			seed,
			"an integer",
		);
}

function checkArray(list: unknown, operation: string, argument: string): void {
	if (!Array.isArray(list))
		throw new InvalidArgumentError(operation, argument, list, "an array");
}

/** @throws InvalidArgumentError for what is no block hash, no group or no tier. */
function checkHash(
	operation: "addHash" | "removeHash",
	source: Uint8Array,
	offset: number,
	hashBytes: number,
	group: number,
	tiers: TierMask,
): void {
	const name = `ReverseHashMap.${operation}`;
	if (!(source instanceof Uint8Array))
		throw new InvalidArgumentError(name, "source", source, "a Uint8Array");
	if (!(Number.isInteger(offset) && offset >= 0))
		throw new InvalidArgumentError(
			name,
			"offset",
			offset,
			"an index of the source",
		);
	if (
		!(hashBytes >= MIN_HASH_BYTES && hashBytes <= MAX_HASH_BYTES) ||
		!(Number.isInteger(hashBytes) && offset + hashBytes <= source.length)
	)
		throw new InvalidArgumentError(
			name,
			"hashBytes",
			hashBytes,
			`${MIN_HASH_BYTES} to ${MAX_HASH_BYTES} bytes inside the source`,
		);
	if (!(group >= 0 && group <= 0xffff_ffff && Number.isInteger(group)))
		throw new InvalidArgumentError(
			name,
			"group",
			group,
			"an unsigned 32-bit integer",
		);
	checkTiers(tiers, name);
}
