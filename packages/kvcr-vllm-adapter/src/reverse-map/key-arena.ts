/**
 * Keys and their tiers in flat pages, one run of pages per key length. Entries of a length lie densely: the last one
 * moves into the place of a freed one, so there is never anything to compact and memory follows the number of keys.
 *
 * An entry is the packed key (see packed-key.ts) and one word of tier bits. A *ref* names an entry: page ‖ 16-bit index.
 */
import { MapFullError } from "../errors.js";
import { bufferOf, unitsBefore, unitsIn } from "./graded.js";
import type { StoreLimits } from "./limits.js";
import { GROUP_BYTES, packedWords, packHash, unpackKey } from "./packed-key.js";
import type { WordPool } from "./word-pool.js";

/** Entries of a unit of pages, and bytes that it may take; see graded.ts. */
const UNIT_BITS = 12;
const UNIT_BYTES = 1 << 18;
/** Parts of a ref, an enum for the reason given in segment.ts. A page has up to 16 units. */
enum Ref {
	IndexBits = 12 + 4,
	IndexMask = (1 << IndexBits) - 1,
}
/** Entries of a unit of pages, and those a ref can tell apart in one page. */
export const UNIT_ENTRIES: number = 1 << UNIT_BITS;
export const PAGE_ENTRIES: number = Ref.IndexMask + 1;
/** Refs leave two bits of a word free. */
const MAX_PAGES = 1 << (30 - Ref.IndexBits);
/** The first page of a length begins with this many entries, and grows eightfold. */
const FIRST_PAGE_ENTRIES = 64;

/** All keys of one length. */
interface LengthClass {
	/** Bytes of a key. */
	readonly length: number;
	/** Words of a packed key, without the tiers. */
	readonly keyWords: number;
	/** Entries of a unit of pages. */
	readonly perUnit: number;
	/** Page numbers in order; all but the last are full. */
	readonly pages: number[];
	count: number;
	/** Ref of the next entry, and how many more there is room for after the last one; no room: 0. */
	next: number;
	room: number;
}

/** See the comment at the top of this file. */
export class KeyArena {
	readonly #pool: WordPool;
	readonly #maxPages: number;
	/** Page 0 stays unused, so that no ref is 0. */
	readonly #pages: (Int32Array | undefined)[] = [undefined];
	readonly #classOfPage: (LengthClass | undefined)[] = [undefined];
	readonly #freePages: number[] = [];
	readonly #classes = new Map<number, LengthClass>();
	/** The class used last: nearly always the only one. */
	#recent: LengthClass | undefined;
	#bytes = 0;
	#size = 0;

	constructor(limits: StoreLimits) {
		this.#pool = limits.pool;
		this.#maxPages = Math.min(limits.pages, MAX_PAGES);
	}

	/** Gives all pages back. The arena must not be used any more. */
	dispose(): void {
		for (const page of this.#pages.splice(0))
			if (page !== undefined) this.#pool.give(page);
	}

	/** Number of entries. */
	get size(): number {
		return this.#size;
	}

	/** Bytes of all pages. */
	get bytes(): number {
		return this.#bytes;
	}

	/** Lengths that have keys, in bytes. */
	lengths(): number[] {
		return [...this.#classes.keys()];
	}

	/** Number of keys of one length. */
	countOf(length: number): number {
		return this.#classes.get(length)?.count ?? 0;
	}

	/**
	 * The ref that the next appended key of a length will have, 0 when all refs are used. Makes room for it.
	 */
	nextRef(length: number): number {
		const cls = this.#class(length);
		if (cls.room === 0 && !this.#widen(cls)) return 0;
		return cls.next;
	}

	/** The error that says that all refs are used. */
	full(): MapFullError {
		return new MapFullError("key", this.#size);
	}

	/**
	 * Appends a key: the block hash at `source[offset, offset + hashBytes)` with a group index.
	 * @throws MapFullError when all refs are used. After a {@link nextRef} that found room, nothing is thrown.
	 */
	append(
		source: Uint8Array,
		offset: number,
		hashBytes: number,
		group: number,
		tiers: number,
	): number {
		const cls = this.#class(hashBytes + GROUP_BYTES);
		if (cls.room === 0 && !this.#widen(cls)) throw this.full();
		const ref = cls.next++;
		cls.room--;
		const page = this.page(ref);
		const at = (ref & Ref.IndexMask) * (cls.keyWords + 1);
		packHash(source, offset, hashBytes, group, page, at);
		page[at + cls.keyWords] = tiers;
		cls.count++;
		this.#size++;
		return ref;
	}

	/** Ref of the `index`-th key of a length. */
	refAt(length: number, index: number): number {
		const cls = this.#class(length);
		const number = bufferOf(Math.floor(index / cls.perUnit));
		return this.#refIn(cls, number, index);
	}

	/** Ref of the last key of a length, 0 when there is none. */
	lastOf(length: number): number {
		const cls = this.#classes.get(length);
		return cls === undefined || cls.count === 0 ? 0 : this.#last(cls);
	}

	/** Ref of the last key of the same length: the one that must move when `ref` is freed. */
	lastLike(ref: number): number {
		return this.#last(this.#classOf(ref));
	}

	/** Copies entry `from` over entry `to` of the same length. */
	copy(from: number, to: number): void {
		const words = this.#classOf(from).keyWords + 1;
		const source = this.page(from);
		const target = this.page(to);
		const a = (from & Ref.IndexMask) * words;
		const b = (to & Ref.IndexMask) * words;
		for (let i = 0; i < words; i++) target[b + i] = source[a + i] as number;
	}

	/** Drops the last key of the length of `ref`, and the page when that was its only entry. */
	dropLast(ref: number): void {
		const cls = this.#classOf(ref);
		cls.count--;
		cls.next--;
		cls.room++;
		this.#size--;
		if (cls.count > firstOf(cls, cls.pages.length - 1)) return;
		const page = cls.pages.pop() as number;
		const words = this.#pages[page] as Int32Array;
		this.#bytes -= words.byteLength;
		this.#pool.give(words);
		this.#pages[page] = undefined;
		this.#classOfPage[page] = undefined;
		this.#freePages.push(page);
		if (cls.count === 0) {
			this.#classes.delete(cls.length);
			if (this.#recent === cls) this.#recent = undefined;
		} else this.#setRoom(cls);
	}

	/** The page an entry lies in. */
	page(ref: number): Int32Array {
		return this.#pages[ref >>> Ref.IndexBits] as Int32Array;
	}

	/** Word at which an entry begins in its page. */
	offset(ref: number): number {
		return (ref & Ref.IndexMask) * (this.#classOf(ref).keyWords + 1);
	}

	/** Words of a packed key, without the tiers. */
	keyWordsOf(ref: number): number {
		return this.#classOf(ref).keyWords;
	}

	/** Bytes of a key. */
	lengthOf(ref: number): number {
		return this.#classOf(ref).length;
	}

	/** The bytes of a key. */
	keyOf(ref: number): Uint8Array {
		const cls = this.#classOf(ref);
		const at = (ref & Ref.IndexMask) * (cls.keyWords + 1);
		return unpackKey(this.page(ref), at, cls.length);
	}

	/** Whether an entry is the key of `length` bytes packed in `words`. */
	equals(ref: number, length: number, words: Int32Array): boolean {
		const cls = this.#classOf(ref);
		if (cls.length !== length) return false;
		const page = this.page(ref);
		const at = (ref & Ref.IndexMask) * (cls.keyWords + 1);
		for (let i = cls.keyWords - 1; i >= 0; i--)
			if (page[at + i] !== words[i]) return false;
		return true;
	}

	/** Reads both ends of an entry, which brings all of it into the cache. The value means nothing. */
	touch(ref: number): number {
		const words = this.#classOf(ref).keyWords;
		const at = (ref & Ref.IndexMask) * (words + 1);
		const page = this.page(ref);
		return (page[at] as number) ^ (page[at + words] as number);
	}

	/** Tier bits of an entry. */
	tiers(ref: number): number {
		const words = this.#classOf(ref).keyWords;
		return this.page(ref)[
			(ref & Ref.IndexMask) * (words + 1) + words
		] as number;
	}

	/** Sets the tier bits of an entry. */
	setTiers(ref: number, tiers: number): void {
		const words = this.#classOf(ref).keyWords;
		this.page(ref)[(ref & Ref.IndexMask) * (words + 1) + words] = tiers;
	}

	#classOf(ref: number): LengthClass {
		return this.#classOfPage[ref >>> Ref.IndexBits] as LengthClass;
	}

	/** The class of a length. A new one is remembered once it has a page. */
	#class(length: number): LengthClass {
		if (this.#recent?.length === length) return this.#recent;
		const cls = this.#classes.get(length);
		if (cls !== undefined) {
			this.#recent = cls;
			return cls;
		}
		const keyWords = packedWords(length);
		const bytes = (keyWords + 1) * 4;
		return {
			length,
			keyWords,
			perUnit: Math.min(1 << UNIT_BITS, Math.floor(UNIT_BYTES / bytes)),
			pages: [],
			count: 0,
			next: 0,
			room: 0,
		};
	}

	#last(cls: LengthClass): number {
		const index = cls.count - 1;
		// The last page is still empty when the key it was made for turned out to be here.
		const number = cls.pages.length - 1;
		return this.#refIn(
			cls,
			index < firstOf(cls, number) ? number - 1 : number,
			index,
		);
	}

	/** Ref of the `index`-th key of a class, which lies in its `number`-th page. */
	#refIn(cls: LengthClass, number: number, index: number): number {
		const page = cls.pages[number] as number;
		return (page << Ref.IndexBits) | (index - firstOf(cls, number));
	}

	/** Makes room in a class whose last page is full. False when that needs a page and there are no more. */
	#widen(cls: LengthClass): boolean {
		const last = cls.pages.length - 1;
		const index = cls.count - firstOf(cls, last);
		if (last < 0 || index === entriesOf(cls, last)) {
			if (!this.#addPage(cls)) return false;
		} else {
			// The first page, which begins small.
			const page = cls.pages[last] as number;
			const words = this.#pages[page] as Int32Array;
			const entries = Math.min(index * 8, cls.perUnit);
			const wider = this.#pool.takeAny(entries * (cls.keyWords + 1));
			wider.set(words);
			this.#pool.give(words);
			this.#pages[page] = wider;
			this.#bytes += wider.byteLength - words.byteLength;
		}
		this.#setRoom(cls);
		return true;
	}

	#setRoom(cls: LengthClass): void {
		const last = cls.pages.length - 1;
		const page = this.#pages[cls.pages[last] as number] as Int32Array;
		const used = cls.count - firstOf(cls, last);
		cls.next = ((cls.pages[last] as number) << Ref.IndexBits) | used;
		cls.room = page.length / (cls.keyWords + 1) - used;
	}

	#addPage(cls: LengthClass): boolean {
		const page = this.#freePages.at(-1) ?? this.#pages.length;
		if (page >= this.#maxPages) return false;
		const entries =
			cls.pages.length === 0
				? Math.min(FIRST_PAGE_ENTRIES, cls.perUnit)
				: entriesOf(cls, cls.pages.length);
		const words = this.#pool.takeAny(entries * (cls.keyWords + 1));
		this.#freePages.pop();
		this.#pages[page] = words;
		this.#classOfPage[page] = cls;
		this.#bytes += words.byteLength;
		cls.pages.push(page);
		this.#classes.set(cls.length, cls);
		return true;
	}
}

/** Entries of the `number`-th page of a class. */
function entriesOf(cls: LengthClass, number: number): number {
	return unitsIn(number) * cls.perUnit;
}

/** Index of the first key in the `number`-th page of a class. */
function firstOf(cls: LengthClass, number: number): number {
	return unitsBefore(number) * cls.perUnit;
}
