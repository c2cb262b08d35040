/** Fixed-size records of 32-bit words in pages, numbered densely from 1. Only the last one can be dropped. */
import type { WordPool } from "./word-pool.js";

const PAGE_BITS = 14;
const PAGE_RECORDS = 1 << PAGE_BITS;
const FIRST_PAGE_RECORDS = 64;

/** See the comment at the top of this file. */
export class DenseRecords {
	readonly #pool: WordPool;
	readonly #words: number;
	readonly #pages: Int32Array[] = [];
	/** Number of the last record. Record 0 exists and stays unused. */
	#last = 0;

	constructor(wordsPerRecord: number, pool: WordPool) {
		this.#pool = pool;
		this.#words = wordsPerRecord;
		this.#pages.push(pool.takeAny(FIRST_PAGE_RECORDS * wordsPerRecord));
	}

	/** Gives all pages back. The records must not be used any more. */
	dispose(): void {
		for (const page of this.#pages.splice(0)) this.#pool.give(page);
	}

	/** Number of the last record, 0 when there is none. */
	get last(): number {
		return this.#last;
	}

	/** Bytes of all pages. */
	get bytes(): number {
		return this.#pages.reduce((sum, page) => sum + page.byteLength, 0);
	}

	/** Adds a record with undefined content and returns its number. */
	append(): number {
		const record = this.#last + 1;
		const page = record >>> PAGE_BITS;
		if (page === this.#pages.length)
			this.#pages.push(this.#pool.takeAny(PAGE_RECORDS * this.#words));
		else if (page === 0) {
			const first = this.#pages[0] as Int32Array;
			const size = first.length / this.#words;
			if (record === size) {
				const wider = this.#pool.takeAny(
					Math.min(size * 8, PAGE_RECORDS) * this.#words,
				);
				wider.set(first);
				this.#pool.give(first);
				this.#pages[0] = wider;
			}
		}
		this.#last = record;
		return record;
	}

	/** Drops the last record. A page is kept while the one before it is in use, so that nothing flaps. */
	dropLast(): void {
		this.#last--;
		const page = this.#last >>> PAGE_BITS;
		if (this.#pages.length > page + 2)
			this.#pool.give(this.#pages.pop() as Int32Array);
	}

	get(record: number, word: number): number {
		return (this.#pages[record >>> PAGE_BITS] as Int32Array)[
			(record & (PAGE_RECORDS - 1)) * this.#words + word
		] as number;
	}

	set(record: number, word: number, value: number): void {
		(this.#pages[record >>> PAGE_BITS] as Int32Array)[
			(record & (PAGE_RECORDS - 1)) * this.#words + word
		] = value;
	}
}
