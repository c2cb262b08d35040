/**
 * The keys that share a router hash. Two or more of them form a list; a list of more than eight is also indexed by a
 * hash over whole keys, so that neither look-up nor removal grows with the number of colliding keys.
 *
 * A table value is a *ref* (one key), or a list's head node with one of two flags: a short list, or an indexed one.
 */
import { ChainIndex } from "./chain-index.js";
import { DenseRecords } from "./dense-records.js";
import type { KeyArena } from "./key-arena.js";
import type { StoreLimits } from "./limits.js";
import type { MixSeed } from "./mix.js";
import type { SegmentedTable } from "./segmented-table.js";

const SHORT = 0x4000_0000;
const INDEXED = 0x8000_0000 | 0;
const NODE_MASK = 0x3fff_ffff;
/** A list longer than this is indexed; an indexed list that has shrunk to `UNINDEX_AT` is plain again. */
const INDEX_ABOVE = 8;
const UNINDEX_AT = 4;

/** Words of a node: the key's ref, the next node (0: none), and the node before; in a head, the length of the list. */
const REF = 0;
const NEXT = 1;
const BEFORE = 2;
/** Marks `BEFORE` of a head. */
const HEAD = 0x8000_0000 | 0;

/** Whether a table value names a list rather than one key. */
export function isList(value: number): boolean {
	return value < 0 || value >= SHORT;
}

/** See the comment at the top of this file. Lists are named by the table value that holds them. */
export class CollisionChains {
	readonly #arena: KeyArena;
	readonly #table: SegmentedTable;
	readonly #seed: MixSeed;
	readonly #limits: StoreLimits;
	readonly #nodes: DenseRecords;
	/** Nodes of indexed lists by whole key. */
	#chainIndex: ChainIndex | undefined;

	/** `table` is the one whose values name the lists: the chains keep it in step when nodes move. */
	constructor(
		arena: KeyArena,
		table: SegmentedTable,
		seed: MixSeed,
		limits: StoreLimits,
	) {
		this.#limits = limits;
		this.#nodes = new DenseRecords(3, limits.pool);
		this.#arena = arena;
		this.#table = table;
		this.#seed = seed;
	}

	/** Gives all buffers back. The chains must not be used any more. */
	dispose(): void {
		this.#nodes.dispose();
		this.#chainIndex?.dispose();
	}

	/** Number of keys in lists. */
	get size(): number {
		return this.#nodes.last;
	}

	/** Bytes of nodes and index. */
	get bytes(): number {
		return this.#nodes.bytes + (this.#chainIndex?.bytes ?? 0);
	}

	/** Number of keys in a list. */
	count(list: number): number {
		return this.#nodes.get(list & NODE_MASK, BEFORE) & ~HEAD;
	}

	/** Node of the key packed in `words`, 0 when it is not in the list. */
	find(list: number, length: number, words: Int32Array): number {
		const arena = this.#arena;
		if (list < 0) return (this.#chainIndex as ChainIndex).find(length, words);
		let node = list & NODE_MASK;
		while (
			node !== 0 &&
			!arena.equals(this.#nodes.get(node, REF), length, words)
		)
			node = this.#nodes.get(node, NEXT);
		return node;
	}

	/** Ref of the key of a node. */
	refOf(node: number): number {
		return this.#nodes.get(node, REF);
	}

	/** First node of a list. */
	first(list: number): number {
		return list & NODE_MASK;
	}

	/** Node after a node, 0 after the last. */
	next(node: number): number {
		return this.#nodes.get(node, NEXT);
	}

	/** Makes a list of two keys and returns the table value for it. When that fails, nothing has changed. */
	pair(first: number, second: number): number {
		const nodes = this.#nodes;
		const head = nodes.append();
		let node: number;
		try {
			node = nodes.append();
		} catch (error) {
			nodes.dropLast();
			throw error;
		}
		this.#write(head, first, node, HEAD | 2);
		this.#write(node, second, 0, head);
		return head | SHORT;
	}

	/**
	 * Adds a key to a list and returns the table value for it.
	 * @throws MapFullError when the index has no room for it. Then, as after any other error, nothing has changed.
	 */
	add(list: number, ref: number): number {
		const nodes = this.#nodes;
		const head = list & NODE_MASK;
		const count = this.count(list) + 1;
		const indexed = count > INDEX_ABOVE || list < 0;
		const node = nodes.append();
		nodes.set(node, REF, ref);
		if (indexed) {
			try {
				this.#index(node, list < 0 ? 0 : head);
			} catch (error) {
				nodes.dropLast();
				throw error;
			}
		}
		const second = nodes.get(head, NEXT);
		this.#write(node, ref, second, head);
		if (second !== 0) nodes.set(second, BEFORE, node);
		nodes.set(head, NEXT, node);
		nodes.set(head, BEFORE, HEAD | count);
		return head | (indexed ? INDEXED : SHORT);
	}

	/** Takes a node out of the list of a router hash and writes the hash's new table value. The key itself stays. */
	remove(
		mixed: number,
		high: number,
		low: number,
		list: number,
		node: number,
	): void {
		const nodes = this.#nodes;
		let head = list & NODE_MASK;
		const count = this.count(list) - 1;
		const index = this.#chainIndex as ChainIndex;
		if (list < 0) index.remove(node);
		const next = nodes.get(node, NEXT);
		if (node === head) {
			head = next;
		} else {
			const before = nodes.get(node, BEFORE);
			nodes.set(before, NEXT, next);
			if (next !== 0) nodes.set(next, BEFORE, before);
		}
		nodes.set(head, BEFORE, HEAD | count);
		let value = head | (list < 0 ? INDEXED : SHORT);
		if (list < 0 && count <= UNINDEX_AT) {
			for (let n = head; n !== 0; n = nodes.get(n, NEXT)) index.remove(n);
			value = head | SHORT;
		}
		if (count === 1) value = nodes.get(head, REF);
		this.#table.replace(mixed, high, low, list, value);
		if (count > 1) this.#free(node);
		else {
			// The higher number first: the lower one cannot be the node that moves.
			this.#free(Math.max(head, node));
			this.#free(Math.min(head, node));
		}
	}

	/** Node that holds a ref. The key's content must be readable at `content`. */
	nodeOf(list: number, ref: number, content = ref): number {
		const nodes = this.#nodes;
		let node = list & NODE_MASK;
		if (list < 0) node = (this.#chainIndex as ChainIndex).nodeOf(ref, content);
		else
			while (node !== 0 && nodes.get(node, REF) !== ref)
				node = nodes.get(node, NEXT);
		if (node === 0) throw new Error(`ReverseHashMap: no node holds key ${ref}`);
		return node;
	}

	/** Tells the list that a key moved in the arena; its content is at `to` already. */
	moved(list: number, from: number, to: number): void {
		this.#nodes.set(this.nodeOf(list, from, to), REF, to);
	}

	/** Frees an unlinked node: the last node takes its number. */
	#free(node: number): void {
		const nodes = this.#nodes;
		const last = nodes.last;
		if (last !== node) {
			const ref = nodes.get(last, REF);
			const next = nodes.get(last, NEXT);
			const before = nodes.get(last, BEFORE);
			const page = this.#arena.page(ref);
			const at = this.#arena.offset(ref);
			const high = page[at] as number;
			const low = page[at + 1] as number;
			const mixed = this.#table.mix(high, low);
			const list = this.#table.get(mixed, high, low);
			if (list < 0) (this.#chainIndex as ChainIndex).renumber(last, node);
			if (before < 0)
				this.#table.replace(
					mixed,
					high,
					low,
					list,
					node | (list < 0 ? INDEXED : SHORT),
				);
			else nodes.set(before, NEXT, node);
			if (next !== 0) nodes.set(next, BEFORE, node);
			this.#write(node, ref, next, before);
		}
		nodes.dropLast();
	}

	#write(node: number, ref: number, next: number, before: number): void {
		this.#nodes.set(node, REF, ref);
		this.#nodes.set(node, NEXT, next);
		this.#nodes.set(node, BEFORE, before);
	}

	/** Files a new node and, where the list gets its index only now, the nodes from `head` on: all of them or, on an error, none. */
	#index(node: number, head: number): void {
		this.#chainIndex ??= new ChainIndex(
			this.#arena,
			this.#nodes,
			this.#seed,
			this.#limits,
		);
		const index = this.#chainIndex;
		index.add(node);
		let reached = head;
		try {
			for (; reached !== 0; reached = this.#nodes.get(reached, NEXT))
				index.add(reached);
		} catch (error) {
			index.remove(node);
			for (let n = head; n !== reached; n = this.#nodes.get(n, NEXT))
				index.remove(n);
			throw error;
		}
	}
}
