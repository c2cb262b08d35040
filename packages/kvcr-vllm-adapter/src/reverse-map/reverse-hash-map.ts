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
	HashNotFoundError,
	InvalidArgumentError,
	type RouterHash,
	type RouterLookup,
	routerHash,
} from "kvcr-core";
import { CollisionChains, isList } from "./collision-chains.js";
import { KeyArena } from "./key-arena.js";
import { mixSeed } from "./mix.js";
import {
	checkKey,
	GROUP_BYTES,
	MAX_HASH_BYTES,
	MIN_HASH_BYTES,
	packHash,
	packKey,
	unpackKey,
} from "./packed-key.js";
import { SegmentedTable } from "./segmented-table.js";
import { checkTiers, type TierMask, TierRegister } from "./tiers.js";
import { WordPool } from "./word-pool.js";

/** Answer of a status look-up. */
export type HashStatus = "unique" | "not_found" | "ambiguous_hash";

/** One full key of a hash, with the tiers it is present in. */
export interface HashCandidate {
	/** The full key. */
	readonly key: BlockKey;
	/** The tiers that have it, one bit each. */
	readonly tiers: TierMask;
}

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

/** Hashes looked up together; enough to hide memory latency, small enough to stay in the first-level cache. */
const BATCH = 64;
/** A list is not followed further than this during a sweep: beyond it a hash counts as ambiguous. */
const MAX_SWEEP_WALK = 1024;

/** See the comment at the top of this file. */
export class ReverseHashMap {
	readonly #seed: number | undefined;
	readonly #pool = new WordPool();
	#arena: KeyArena;
	#table: SegmentedTable;
	#chains: CollisionChains;
	readonly #tiers = new TierRegister();
	/** Keys of these tiers are on their way out and count as absent. */
	#retired = 0;
	/** Lengths that a sweep still has to visit, and how many keys of the first one it has left. */
	#sweepLengths: number[] = [];
	#sweepLeft = 0;
	/** The key at hand, packed. */
	readonly #words = new Int32Array((MAX_HASH_BYTES + GROUP_BYTES) >>> 2);
	readonly #hash64 = new BigUint64Array(BATCH);
	/** Low and high word of each: typed arrays are little-endian wherever Node runs. */
	readonly #hash32 = new Int32Array(this.#hash64.buffer);
	readonly #pairs = new Int32Array(2 * BATCH);
	readonly #values = new Int32Array(BATCH);
	/** Keys of a batch are touched before any is copied, so that the waits for memory overlap. */
	readonly #touched = new Int32Array(BATCH);

	/** An empty map. Its buffers grow with it. */
	constructor(options: ReverseHashMapOptions = {}) {
		this.#seed = options.seed;
		const seed = mixSeed(this.#seed);
		const pool = this.#pool;
		this.#arena = new KeyArena(pool);
		this.#table = new SegmentedTable(seed, pool);
		this.#chains = new CollisionChains(this.#arena, this.#table, seed, pool);
	}

	/** Number of full keys held. */
	get size(): number {
		return this.#arena.size;
	}

	/** Figures of this map. */
	stats(): ReverseHashMapStats {
		return {
			keys: this.#arena.size,
			hashes: this.#table.size,
			collidingKeys: this.#chains.size,
			bytes: this.#arena.bytes + this.#table.bytes + this.#chains.bytes,
		};
	}

	/**
	 * Notes that a key is present in tiers. True when that is news for at least one of them.
	 * @throws InvalidArgumentError for a key or mask that is unusable; MapFullError beyond about a thousand million keys.
	 */
	add(key: Uint8Array, tiers: TierMask): boolean {
		checkKey(key, "ReverseHashMap.add", "key");
		checkTiers(tiers, "ReverseHashMap.add");
		packKey(key, this.#words);
		return this.#add(key.length, tiers | 0);
	}

	/** {@link add} for the block hash at `source[offset, offset + hashBytes)` with a group index, without making a key. */
	addHash(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: TierMask,
	): boolean {
		this.#packHash("addHash", source, offset, hashBytes, group, tiers);
		return this.#add(hashBytes + GROUP_BYTES, tiers | 0);
	}

	/**
	 * Notes that a key has left tiers; it goes when it is in no tier any more. True when it was in at least one of them.
	 * @throws InvalidArgumentError for a key or mask that is unusable.
	 */
	remove(key: Uint8Array, tiers: TierMask): boolean {
		checkKey(key, "ReverseHashMap.remove", "key");
		checkTiers(tiers, "ReverseHashMap.remove");
		packKey(key, this.#words);
		return this.#remove(key.length, tiers | 0);
	}

	/** {@link remove} for the block hash at `source[offset, offset + hashBytes)` with a group index. */
	removeHash(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: TierMask,
	): boolean {
		this.#packHash("removeHash", source, offset, hashBytes, group, tiers);
		return this.#remove(hashBytes + GROUP_BYTES, tiers | 0);
	}

	/** Tiers a key is present in, 0 for none. */
	tiersOf(key: Uint8Array): TierMask {
		checkKey(key, "ReverseHashMap.tiersOf", "key");
		packKey(key, this.#words);
		const words = this.#words;
		const value = this.#table.get(words[0] as number, words[1] as number);
		const ref = this.#refIn(value, key.length);
		return ref === 0 ? 0 : (this.#arena.tiers(ref) & ~this.#retired) >>> 0;
	}

	/** Whether a hash names no key, one, or several. */
	status(hash: RouterHash): HashStatus {
		const value = this.#live(this.#valueOf(hash));
		if (value === 0) return "not_found";
		return isList(value) ? "ambiguous_hash" : "unique";
	}

	/** The one key a hash names, or why there is none. */
	lookup(hash: RouterHash): RouterLookup {
		return this.#answer(this.#live(this.#valueOf(hash)));
	}

	/** {@link lookup} for many hashes, in their order; several times quicker per hash than one by one. */
	lookupMany(hashes: readonly RouterHash[]): RouterLookup[] {
		const answers = new Array<RouterLookup>(hashes.length);
		const values = this.#values;
		for (let from = 0; from < hashes.length; from += BATCH) {
			const count = this.#valuesOf(hashes, from);
			for (let i = 0; i < count; i++) {
				const value = values[i] as number;
				if (value !== 0 && !isList(value))
					this.#touched[i] = this.#arena.touch(value);
			}
			for (let i = 0; i < count; i++)
				answers[from + i] = this.#answer(this.#live(values[i] as number));
		}
		return answers;
	}

	/** {@link status} for many hashes, in their order. */
	statusMany(hashes: readonly RouterHash[]): HashStatus[] {
		const answers = new Array<HashStatus>(hashes.length);
		for (let from = 0; from < hashes.length; from += BATCH) {
			const count = this.#valuesOf(hashes, from);
			for (let i = 0; i < count; i++) {
				const value = this.#live(this.#values[i] as number);
				answers[from + i] =
					value === 0
						? "not_found"
						: isList(value)
							? "ambiguous_hash"
							: "unique";
			}
		}
		return answers;
	}

	/**
	 * The one key a hash names.
	 * @throws HashNotFoundError, AmbiguousHashError
	 */
	resolve(hash: RouterHash): BlockKey {
		const answer = this.lookup(hash);
		if (answer === "not_found") throw new HashNotFoundError(hash);
		if (answer === "ambiguous_hash")
			throw new AmbiguousHashError(
				hash,
				this.#chains.count(this.#valueOf(hash)),
			);
		return answer;
	}

	/** Every key a hash names. For diagnostics and tests: takes time in proportion to their number. */
	candidates(hash: RouterHash): HashCandidate[] {
		const value = this.#valueOf(hash);
		const found: HashCandidate[] = [];
		for (const ref of this.#refs(value)) {
			const tiers = (this.#arena.tiers(ref) & ~this.#retired) >>> 0;
			if (tiers !== 0) found.push({ key: this.#keyOf(ref), tiers });
		}
		return found;
	}

	/** Forgets every key at once. Reserved tiers stay reserved, retired ones are free again. */
	clear(): void {
		const seed = mixSeed(this.#seed);
		this.#arena.dispose();
		this.#table.dispose();
		this.#chains.dispose();
		const pool = this.#pool;
		this.#arena = new KeyArena(pool);
		this.#table = new SegmentedTable(seed, pool);
		this.#chains = new CollisionChains(this.#arena, this.#table, seed, pool);
		this.#endSweep();
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
		this.#retired |= tiers;
		// A sweep under way has passed keys of the newly retired tiers: it begins again.
		this.#sweepLengths = this.#arena.lengths();
		this.#sweepLeft = this.#arena.countOf(this.#sweepLengths[0] ?? 0);
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
		const arena = this.#arena;
		let budget = maxKeys;
		while (this.#sweepLengths.length > 0) {
			const length = this.#sweepLengths[0] as number;
			// From the end: a freed key is replaced by the last one, which has been visited or is newer than the sweep.
			let left = Math.min(this.#sweepLeft, arena.countOf(length));
			for (; left > 0 && budget > 0; budget--) {
				left--;
				const ref = arena.refAt(length, left);
				const tiers = arena.tiers(ref) & ~this.#retired;
				if (tiers !== 0) arena.setTiers(ref, tiers);
				else this.#free(ref);
			}
			this.#sweepLeft = left;
			if (left > 0) return true;
			this.#sweepLengths.shift();
			this.#sweepLeft = arena.countOf(this.#sweepLengths[0] ?? 0);
		}
		this.#endSweep();
		return false;
	}

	#endSweep(): void {
		this.#tiers.release(this.#retired);
		this.#retired = 0;
		this.#sweepLengths = [];
		this.#sweepLeft = 0;
	}

	#packHash(
		operation: "addHash" | "removeHash",
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: TierMask,
	): void {
		const name = `ReverseHashMap.${operation}`;
		if (
			!(hashBytes >= MIN_HASH_BYTES && hashBytes <= MAX_HASH_BYTES) ||
			!(offset >= 0 && offset + hashBytes <= source.length) ||
			!(Number.isInteger(hashBytes) && Number.isInteger(offset))
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
		packHash(source, offset, hashBytes, group, this.#words);
	}

	#add(length: number, tiers: number): boolean {
		if ((tiers & this.#retired) !== 0)
			throw new InvalidArgumentError(
				"ReverseHashMap.add",
				"tiers",
				tiers >>> 0,
				"free of retired tiers",
			);
		const words = this.#words;
		const high = words[0] as number;
		const low = words[1] as number;
		const table = this.#table;
		const value = table.get(high, low);
		if (value === 0) {
			const ref = this.#arena.append(length, words, tiers);
			try {
				table.insert(high, low, ref);
			} catch (error) {
				this.#arena.dropLast(ref);
				throw error;
			}
			return true;
		}
		const found = this.#refIn(value, length);
		if (found !== 0) {
			const before = this.#arena.tiers(found) & ~this.#retired;
			this.#arena.setTiers(found, before | tiers);
			return (tiers & ~before) !== 0;
		}
		const ref = this.#arena.append(length, words, tiers);
		const list = isList(value)
			? this.#chains.add(value, ref)
			: this.#chains.pair(value, ref);
		if (list !== value) table.replace(high, low, value, list);
		return true;
	}

	#remove(length: number, tiers: number): boolean {
		const words = this.#words;
		const value = this.#table.get(words[0] as number, words[1] as number);
		const ref = this.#refIn(value, length);
		if (ref === 0) return false;
		const before = this.#arena.tiers(ref) & ~this.#retired;
		const after = before & ~tiers;
		if (after !== 0) this.#arena.setTiers(ref, after);
		else this.#free(ref);
		return (before & tiers) !== 0;
	}

	/** Removes a key for good; the last key of its length takes its place. */
	#free(ref: number): void {
		const arena = this.#arena;
		const table = this.#table;
		const chains = this.#chains;
		const page = arena.page(ref);
		const at = arena.offset(ref);
		let high = page[at] as number;
		let low = page[at + 1] as number;
		// Most hashes have one key: tried first, so that their slot is looked for only once.
		if (!table.remove(high, low, ref)) {
			const list = table.get(high, low);
			chains.remove(high, low, list, chains.nodeOf(list, ref));
		}
		const last = arena.lastLike(ref);
		if (last !== ref) {
			arena.copy(last, ref);
			high = page[at] as number;
			low = page[at + 1] as number;
			if (!table.replace(high, low, last, ref))
				chains.moved(table.get(high, low), last, ref);
		}
		arena.dropLast(last);
	}

	/** Ref of the packed key among those of a table value, 0 when it is not there. */
	#refIn(value: number, length: number): number {
		if (value === 0) return 0;
		if (!isList(value))
			return this.#arena.equals(value, length, this.#words) ? value : 0;
		const node = this.#chains.find(value, length, this.#words);
		return node === 0 ? 0 : this.#chains.refOf(node);
	}

	*#refs(value: number): Iterable<number> {
		if (value === 0) return;
		if (!isList(value)) {
			yield value;
			return;
		}
		let node = this.#chains.first(value);
		for (; node !== 0; node = this.#chains.next(node))
			yield this.#chains.refOf(node);
	}

	/** The table value with keys of retired tiers left out. */
	#live(value: number): number {
		return this.#retired === 0 || value === 0 ? value : this.#liveSlow(value);
	}

	#liveSlow(value: number): number {
		let live = 0;
		let seen = 0;
		for (const ref of this.#refs(value)) {
			if (++seen > MAX_SWEEP_WALK) return value;
			if ((this.#arena.tiers(ref) & ~this.#retired) === 0) continue;
			if (live !== 0) return value;
			live = ref;
		}
		return live;
	}

	#answer(value: number): RouterLookup {
		if (value === 0) return "not_found";
		return isList(value) ? "ambiguous_hash" : this.#keyOf(value);
	}

	#keyOf(ref: number): BlockKey {
		const arena = this.#arena;
		return unpackKey(
			arena.page(ref),
			arena.offset(ref),
			arena.lengthOf(ref),
		) as BlockKey;
	}

	#valueOf(hash: RouterHash): number {
		this.#setHash(hash, 0);
		const words = this.#hash32;
		return this.#table.get(words[1] as number, words[0] as number);
	}

	#valuesOf(hashes: readonly RouterHash[], from: number): number {
		const count = Math.min(BATCH, hashes.length - from);
		const words = this.#hash32;
		const pairs = this.#pairs;
		for (let i = 0; i < count; i++) {
			this.#setHash(hashes[from + i] as RouterHash, i);
			pairs[2 * i] = words[2 * i + 1] as number;
			pairs[2 * i + 1] = words[2 * i] as number;
		}
		this.#table.getMany(pairs, count, this.#values);
		return count;
	}

	/** Splits a hash into words. A value outside 64 bits would be cut silently, so it is refused here. */
	#setHash(hash: RouterHash, at: number): void {
		this.#hash64[at] =
			typeof hash === "bigint" && BigInt.asUintN(64, hash) === hash
				? hash
				: routerHash(hash, "ReverseHashMap.lookup", "hash");
	}
}
