/**
 * Buffers of 32-bit words for the map's pages and segments.
 *
 * They are shared buffers, although nothing is shared: the engine counts ordinary ones as pressure on its own heap and
 * collects the whole of it after every few dozen megabytes of them. Beside 500 MB of live objects that stops the
 * process for most of a second, nine times on the way to ten million keys; shared ones cause no collection at all.
 *
 * The price is that dropping one causes none either. What was given back is therefore used again first, as long as no
 * collection has taken it.
 */

/** Given-back buffers remembered per size. */
const MAX_REMEMBERED = 1 << 14;

/** See the comment at the top of this file. */
export class WordPool {
	readonly #returned = new Map<number, WeakRef<Int32Array>[]>();

	/** A buffer of `count` words, all zero. */
	take(count: number): Int32Array {
		return this.#again(count)?.fill(0) ?? fresh(count);
	}

	/** A buffer of `count` words, whatever they are: for owners that write before they read. */
	takeAny(count: number): Int32Array {
		return this.#again(count) ?? fresh(count);
	}

	/** Gives a buffer back; its owner must not touch it any more. */
	give(words: Int32Array): void {
		let returned = this.#returned.get(words.length);
		if (returned === undefined) {
			returned = [];
			this.#returned.set(words.length, returned);
		}
		if (returned.length < MAX_REMEMBERED) returned.push(new WeakRef(words));
	}

	#again(count: number): Int32Array | undefined {
		const returned = this.#returned.get(count);
		for (let ref = returned?.pop(); ref !== undefined; ref = returned?.pop()) {
			const words = ref.deref();
			if (words !== undefined) return words;
		}
		return undefined;
	}
}

function fresh(count: number): Int32Array {
	return new Int32Array(new SharedArrayBuffer(count * 4));
}
