/**
 * Nodes of long chains by a keyed hash over whole keys.
 *
 * Should keys turn up whose hashes agree far more often than chance has it, the index takes new secrets and files all
 * nodes again; what still agrees then is refused. No look-up therefore compares more than a few keys, whatever the keys.
 */
import { MapFullError } from "../errors.js";
import type { DenseRecords } from "./dense-records.js";
import type { KeyArena } from "./key-arena.js";
import type { StoreLimits } from "./limits.js";
import { type MixSeed, mixSeed } from "./mix.js";
import { SegmentedTable } from "./segmented-table.js";

/** Most nodes under one 64-bit hash. By chance there are two once in a thousand million keys. */
const MAX_EQUAL = 32;

/** See the comment at the top of this file. */
export class ChainIndex {
	readonly #arena: KeyArena;
	readonly #limits: StoreLimits;
	/** Word 0 of a node is the ref of its key. */
	readonly #nodes: DenseRecords;
	#table: SegmentedTable;
	#k0: number;
	#k1: number;
	/** High and low word of the hash at hand. */
	readonly #hash = new Int32Array(2);
	/** New secrets are taken when the index has this many nodes at least: twice as many as the last time. */
	#rekeyFrom = 0;

	constructor(
		arena: KeyArena,
		nodes: DenseRecords,
		seed: MixSeed,
		limits: StoreLimits,
	) {
		this.#arena = arena;
		this.#nodes = nodes;
		this.#limits = limits;
		this.#k0 = seed[4] as number;
		this.#k1 = seed[5] as number;
		const { pool, indexDepth } = limits;
		this.#table = new SegmentedTable(mixSeed(seed[6]), pool, indexDepth);
	}

	/** Gives all buffers back. The index must not be used any more. */
	dispose(): void {
		this.#table.dispose();
	}

	/** Bytes of all buffers. */
	get bytes(): number {
		return this.#table.bytes;
	}

	/** Node of the key of `length` bytes packed in `words`, 0 when it is not here. */
	find(length: number, words: Int32Array): number {
		const count = (length + 3) >>> 2;
		const mixed = this.#setHash(this.#table, words, 0, count, length);
		for (let skip = 0; ; skip++) {
			const node = this.#nth(mixed, skip);
			if (node === 0) return 0;
			if (this.#arena.equals(this.#nodes.get(node, 0), length, words))
				return node;
		}
	}

	/** Node that holds a ref, 0 when there is none. The key's content is at `content`. */
	nodeOf(ref: number, content: number): number {
		const mixed = this.#setHashOf(this.#table, content);
		for (let skip = 0; ; skip++) {
			const node = this.#nth(mixed, skip);
			if (node === 0 || this.#nodes.get(node, 0) === ref) return node;
		}
	}

	/**
	 * Files a node, whose ref must be set.
	 * @throws MapFullError when there is no room for it; it was not filed then.
	 */
	add(node: number): void {
		const ref = this.#nodes.get(node, 0);
		let mixed = this.#setHashOf(this.#table, ref);
		if (this.#nth(mixed, MAX_EQUAL - 1) !== 0) {
			this.#rekey();
			mixed = this.#setHashOf(this.#table, ref);
			if (this.#nth(mixed, MAX_EQUAL - 1) !== 0)
				throw new MapFullError("key of equal hash", MAX_EQUAL);
		}
		this.#insert(this.#table, mixed, node);
	}

	/** Takes a node out. Its ref and the key must still be readable. */
	remove(node: number): void {
		const mixed = this.#setHashOf(this.#table, this.#nodes.get(node, 0));
		const hash = this.#hash;
		this.#table.remove(mixed, hash[0] as number, hash[1] as number, node);
	}

	/** Says that node `from`, whose ref must still be readable, is about to become node `to`. */
	renumber(from: number, to: number): void {
		const mixed = this.#setHashOf(this.#table, this.#nodes.get(from, 0));
		const hash = this.#hash;
		const high = hash[0] as number;
		this.#table.replace(mixed, high, hash[1] as number, from, to);
	}

	/** Files all nodes under new secrets, unless that was tried at about this size already. */
	#rekey(): void {
		const old = this.#table;
		if (old.size < this.#rekeyFrom) return;
		this.#rekeyFrom = old.size * 2;
		const { pool, indexDepth } = this.#limits;
		const seed = mixSeed();
		const next = new SegmentedTable(seed, pool, indexDepth);
		const [k0, k1] = [this.#k0, this.#k1];
		this.#k0 = seed[4] as number;
		this.#k1 = seed[5] as number;
		try {
			old.forEachValue((node) => {
				const mixed = this.#setHashOf(next, this.#nodes.get(node, 0));
				this.#insert(next, mixed, node);
			});
		} catch (error) {
			next.dispose();
			this.#k0 = k0;
			this.#k1 = k1;
			throw error;
		}
		this.#table = next;
		old.dispose();
	}

	#insert(table: SegmentedTable, mixed: number, node: number): void {
		const hash = this.#hash;
		table.insert(mixed, hash[0] as number, hash[1] as number, node);
	}

	/** Node after `skip` others of the hash at hand, 0 when there are no more. */
	#nth(mixed: number, skip: number): number {
		const hash = this.#hash;
		return this.#table.getNth(
			mixed,
			hash[0] as number,
			hash[1] as number,
			skip,
		);
	}

	/** Sets the hash at hand to that of a key and gives it mixed for a table. */
	#setHashOf(table: SegmentedTable, ref: number): number {
		const arena = this.#arena;
		return this.#setHash(
			table,
			arena.page(ref),
			arena.offset(ref),
			arena.keyWordsOf(ref),
			arena.lengthOf(ref),
		);
	}

	#setHash(
		table: SegmentedTable,
		words: Int32Array,
		from: number,
		count: number,
		bytes: number,
	): number {
		const hash = this.#hash;
		this.#limits.hash(words, from, count, bytes, this.#k0, this.#k1, hash);
		return table.mix(hash[0] as number, hash[1] as number);
	}
}
