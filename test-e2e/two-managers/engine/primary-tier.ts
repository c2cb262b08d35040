/** The primary tier of an engine: blocks of host memory, a prefix cache over them, and eviction of the longest unused. */
import { keyText, type MemoryRegion } from "kvcr-core";

/** One block that has a key. */
interface Entry {
	readonly key: Uint8Array;
	readonly block: number;
	/** False while its bytes are on their way. */
	ready: boolean;
	/** Requests and jobs that need it to stay. */
	refs: number;
}

/** A block that came or went. */
export interface PrimaryEvent {
	readonly key: Uint8Array;
	readonly removed: boolean;
}

export class PrimaryTier {
	readonly #region: MemoryRegion;
	/** In order of last use. */
	readonly #entries = new Map<string, Entry>();
	readonly #free: number[];
	#events: PrimaryEvent[] = [];

	/** @param region Element b is block b. */
	constructor(region: MemoryRegion) {
		this.#region = region;
		this.#free = Array.from({ length: region.elementCount }, (_, i) => i);
	}

	/** Keys whose bytes are there. */
	get size(): number {
		return [...this.#entries.values()].filter(({ ready }) => ready).length;
	}

	/** Blocks that something keeps in place. */
	get held(): number {
		return [...this.#entries.values()].filter(
			({ refs, ready }) => refs > 0 || !ready,
		).length;
	}

	lookup(key: Uint8Array): "HIT" | "HIT_PENDING" | "MISS" {
		const entry = this.#entries.get(keyText(key));
		if (entry === undefined) return "MISS";
		return entry.ready ? "HIT" : "HIT_PENDING";
	}

	/** Takes a block for a key that has none; undefined when all are needed. */
	allocate(key: Uint8Array): number | undefined {
		const text = keyText(key);
		if (this.#entries.has(text)) throw new Error("allocate: the key is there");
		const block = this.#free.pop() ?? this.#evict();
		if (block === undefined) return undefined;
		this.#entries.set(text, { key, block, ready: false, refs: 0 });
		return block;
	}

	/** The bytes of an allocated block are there, or will not come: then it is free for anybody. */
	complete(key: Uint8Array, success: boolean): void {
		const text = keyText(key);
		const entry = this.#entries.get(text);
		if (entry === undefined || entry.ready)
			throw new Error("complete: the key was not allocated");
		if (success) {
			entry.ready = true;
			this.#events.push({ key, removed: false });
			return;
		}
		this.#entries.delete(text);
		// What a failed transfer might still write here must be seen.
		this.#region.element(entry.block).fill(0xee);
		this.#free.push(entry.block);
	}

	/** Keeps a block in place. Gives its number. */
	retain(key: Uint8Array): number {
		const entry = this.#ready(key);
		entry.refs += 1;
		return entry.block;
	}

	release(key: Uint8Array): void {
		const entry = this.#ready(key);
		if (entry.refs === 0) throw new Error("release: the block is not held");
		entry.refs -= 1;
	}

	/** The bytes of a block, which counts as a use. */
	bytes(key: Uint8Array): Uint8Array {
		const entry = this.#ready(key);
		this.#entries.delete(keyText(key));
		this.#entries.set(keyText(key), entry);
		return this.#region.element(entry.block);
	}

	/** Element of the region for a block number. */
	element(block: number): Uint8Array {
		return this.#region.element(block);
	}

	/** Forgets every block that nothing holds. */
	reset(): void {
		for (let block = this.#evict(); block !== undefined; block = this.#evict())
			this.#free.push(block);
	}

	takeEvents(): PrimaryEvent[] {
		const events = this.#events;
		this.#events = [];
		return events;
	}

	#ready(key: Uint8Array): Entry {
		const entry = this.#entries.get(keyText(key));
		if (entry?.ready !== true) throw new Error("the block is not ready");
		return entry;
	}

	#evict(): number | undefined {
		for (const [text, { key, block, ready, refs }] of this.#entries) {
			if (!ready || refs > 0) continue;
			this.#entries.delete(text);
			this.#events.push({ key, removed: true });
			return block;
		}
		return undefined;
	}
}
