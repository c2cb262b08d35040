/**
 * A map from router hashes to small numbers in flat memory. A `Map` of bigints takes several times as long to fill and
 * to collect, which shows in event-loop stalls at 100,000 hashes.
 */
import { randomBytes } from "node:crypto";
import type { RouterHash } from "../ports/names.js";

/** Largest value a hash can be mapped to. */
export const MAX_TABLE_VALUE = 254;

const words = new Uint32Array(2);
const wide = new BigUint64Array(words.buffer);

// Hashes come from outside: multipliers nobody can guess keep them from being chosen to collide.
const secret = randomBytes(8);
const lowFactor = secret.readUInt32LE(0) | 1;
const highFactor = secret.readUInt32LE(4) | 1;

/** Open addressing with linear probing, at most half full. */
export class HashTable {
	#size = 0;
	#bits: number;
	/** Low and high word of each slot's hash. */
	#slots: Uint32Array;
	/** Value + 1 of each slot; 0 is empty. */
	#values: Uint8Array;

	/** @param expected number of hashes to make room for at once; default 8 */
	constructor(expected = 8) {
		// V8 keeps typed arrays of up to 64 bytes on its heap; most hints name few blocks.
		this.#bits = Math.max(2, Math.ceil(Math.log2(Math.max(1, expected) * 2)));
		this.#slots = new Uint32Array(2 << this.#bits);
		this.#values = new Uint8Array(1 << this.#bits);
	}

	/** Number of hashes. */
	get size(): number {
		return this.#size;
	}

	/** Maps a hash to a value of 0 to {@link MAX_TABLE_VALUE}. True when the hash is new here. */
	set(hash: RouterHash, value: number): boolean {
		wide[0] = hash;
		const low = words[0] as number;
		const high = words[1] as number;
		if (this.#put(low, high, value + 1)) {
			if (++this.#size * 2 > this.#values.length) this.#grow();
			return true;
		}
		return false;
	}

	/** The value of a hash, `undefined` when it is not here. */
	get(hash: RouterHash): number | undefined {
		wide[0] = hash;
		const value =
			this.#values[this.#find(words[0] as number, words[1] as number)];
		return value === 0 || value === undefined ? undefined : value - 1;
	}

	#put(low: number, high: number, tag: number): boolean {
		const slot = this.#find(low, high);
		const isNew = this.#values[slot] === 0;
		this.#values[slot] = tag;
		this.#slots[slot * 2] = low;
		this.#slots[slot * 2 + 1] = high;
		return isNew;
	}

	/** The slot that holds the hash, or the empty one where it belongs. */
	#find(low: number, high: number): number {
		const mask = this.#values.length - 1;
		let slot =
			(Math.imul(low, lowFactor) + Math.imul(high, highFactor)) >>>
			(32 - this.#bits);
		while (
			this.#values[slot] !== 0 &&
			(this.#slots[slot * 2] !== low || this.#slots[slot * 2 + 1] !== high)
		)
			slot = (slot + 1) & mask;
		return slot;
	}

	#grow(): void {
		const slots = this.#slots;
		const values = this.#values;
		this.#bits++;
		this.#slots = new Uint32Array(2 << this.#bits);
		this.#values = new Uint8Array(1 << this.#bits);
		for (let i = 0; i < values.length; i++) {
			const tag = values[i] as number;
			if (tag !== 0)
				this.#put(slots[i * 2] as number, slots[i * 2 + 1] as number, tag);
		}
	}
}
