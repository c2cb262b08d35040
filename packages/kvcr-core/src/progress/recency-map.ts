/** A map in order of last use. Traffic comes in runs, so using the entry that was used last must cost nothing. */
export class RecencyMap<K, V> {
	readonly #entries = new Map<K, V>();
	/** Key of the entry used last, while it is there. */
	#latest: K | undefined;

	get size(): number {
		return this.#entries.size;
	}

	has(key: K): boolean {
		return this.#entries.has(key);
	}

	/** An entry, without using it. */
	get(key: K): V | undefined {
		return this.#entries.get(key);
	}

	/** An entry, which counts as used now. */
	use(key: K): V | undefined {
		const value = this.#entries.get(key);
		if (value !== undefined && key !== this.#latest) this.set(key, value);
		return value;
	}

	/** Adds or replaces an entry, which counts as used now. */
	set(key: K, value: V): void {
		this.#entries.delete(key);
		this.#entries.set(key, value);
		this.#latest = key;
	}

	delete(key: K): boolean {
		if (key === this.#latest) this.#latest = undefined;
		return this.#entries.delete(key);
	}

	clear(): void {
		this.#latest = undefined;
		this.#entries.clear();
	}

	/** The one used longest ago first. */
	values(): IterableIterator<V> {
		return this.#entries.values();
	}

	/** The one used longest ago first; entries may be used and deleted on the way. */
	[Symbol.iterator](): IterableIterator<[K, V]> {
		return this.#entries[Symbol.iterator]();
	}
}
