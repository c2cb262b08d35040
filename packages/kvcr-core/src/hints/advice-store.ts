/** What hints told us, by advice ID, until it is discarded. */
import type { AdviceId, RouterHash } from "../ports/names.js";
import type { TransferMode } from "../protocol/index.js";
import type { FetchAction } from "./envelope.js";
import { HashTable } from "./hash-table.js";

/** How a block may be transferred. */
export interface TransferPolicy {
	readonly mode: TransferMode;
	readonly allowFramework: boolean;
}

/** Advice as others see it. */
export interface Advice {
	readonly id: AdviceId;
	/** Control endpoint to fetch from; absent for local tiers only. */
	readonly source: string | undefined;
	/** True when it must not be followed: its hints name different sources, or it was given up. */
	readonly failed: boolean;
	/** Keys (as `keyText`) the source turned out not to have: not to be asked again. */
	readonly missing: ReadonlySet<string>;
	/** The policy of a hash; `undefined` when no hint offers it from this source. */
	policyFor(hash: RouterHash): TransferPolicy | undefined;
	/** The strictest policy of all its hints, for where keys cannot be told apart: moves only what all of them move. */
	readonly blanket: TransferPolicy;
}

/** Limits of a store. */
export interface AdviceStoreOptions {
	/** Requests with advice at most; the longest unchanged goes first. Default 65,536. */
	readonly maxRequests?: number;
	/** Hashes in all request advice together at most; the longest unchanged advice goes first. Default 4,194,304. */
	readonly maxHashes?: number;
	/** Called for advice that had to go. */
	readonly onEvict?: (id: AdviceId) => void;
}

/** Keys remembered as missing per advice at most; further ones are simply asked for again. */
export const MAX_MISSING_KEYS = 65_536;

const DEFAULT_MAX_REQUESTS = 65_536;
const DEFAULT_MAX_HASHES = 4_194_304;

/** The ID of a request's advice. No private ID equals it, whatever the request is called. */
export function requestAdviceId(requestId: string): AdviceId {
	return `request:${requestId}` as AdviceId;
}

/** Keeps advice. Request advice is bounded and evicted oldest first; private advice ends when its owner discards it. */
export class AdviceStore {
	readonly #advice = new Map<AdviceId, StoredAdvice>();
	readonly #private = new Map<AdviceId, StoredAdvice>();
	readonly #maxRequests: number;
	readonly #maxHashes: number;
	readonly #onEvict: ((id: AdviceId) => void) | undefined;
	#hashes = 0;
	#evicted = 0;
	#nextPrivate = 1;

	constructor(options: AdviceStoreOptions = {}) {
		this.#maxRequests = options.maxRequests ?? DEFAULT_MAX_REQUESTS;
		this.#maxHashes = options.maxHashes ?? DEFAULT_MAX_HASHES;
		this.#onEvict = options.onEvict;
	}

	/** Number of advice entries, private ones included. */
	get size(): number {
		return this.#advice.size + this.#private.size;
	}

	/** Request advice that had to go so far. */
	get evicted(): number {
		return this.#evicted;
	}

	/**
	 * Adds an action to a request's advice. The same source again: hashes merge, and each hash has the policy of the latest
	 * action that names it. Another source: the advice has failed. An action without source never contradicts.
	 */
	record(requestId: string, action: FetchAction): AdviceId {
		const id = requestAdviceId(requestId);
		const advice = this.#advice.get(id) ?? new StoredAdvice(id);
		const before = advice.hashCount;
		advice.add(action);
		this.#hashes += advice.hashCount - before;
		// Deleting first puts it at the young end.
		this.#advice.delete(id);
		this.#advice.set(id, advice);
		this.#makeRoom(id);
		return id;
	}

	/** Stores an action under an ID that no request has and that is never used again. */
	createPrivate(action: FetchAction): AdviceId {
		const id = `private:${this.#nextPrivate++}` as AdviceId;
		const advice = new StoredAdvice(id);
		advice.add(action);
		this.#private.set(id, advice);
		return id;
	}

	get(id: AdviceId): Advice | undefined {
		return this.#find(id);
	}

	/** Marks advice as not to be followed. */
	fail(id: AdviceId): void {
		const advice = this.#find(id);
		if (advice !== undefined) advice.failed = true;
	}

	/** Remembers keys the source does not have. */
	addMissing(id: AdviceId, keyTexts: Iterable<string>): void {
		const missing = this.#find(id)?.missing;
		if (missing === undefined) return;
		for (const text of keyTexts) {
			if (missing.size >= MAX_MISSING_KEYS) return;
			missing.add(text);
		}
	}

	/** Forgets which keys were missing. */
	clearMissing(id: AdviceId): void {
		this.#find(id)?.missing.clear();
	}

	/** Ends advice. False when there was none. */
	discard(id: AdviceId): boolean {
		if (this.#private.delete(id)) return true;
		const advice = this.#advice.get(id);
		if (advice === undefined) return false;
		this.#advice.delete(id);
		this.#hashes -= advice.hashCount;
		return true;
	}

	/** Ends all advice. */
	clear(): void {
		this.#advice.clear();
		this.#private.clear();
		this.#hashes = 0;
	}

	#find(id: AdviceId): StoredAdvice | undefined {
		return this.#advice.get(id) ?? this.#private.get(id);
	}

	#makeRoom(keep: AdviceId): void {
		while (
			this.#advice.size > this.#maxRequests ||
			this.#hashes > this.#maxHashes
		) {
			const oldest = this.#advice.keys().next().value;
			if (oldest === undefined || oldest === keep) return;
			this.discard(oldest);
			this.#evicted++;
			this.#onEvict?.(oldest);
		}
	}
}

/** Bits of the value a hash has in an advice's table. */
const MOVE = 1;
const DENY_FRAMEWORK = 2;
const NO_SOURCE = 4;

/** The policies by their two low bits, shared by all. */
const POLICIES: readonly TransferPolicy[] = [
	{ mode: "copy", allowFramework: true },
	{ mode: "move", allowFramework: true },
	{ mode: "copy", allowFramework: false },
	{ mode: "move", allowFramework: false },
];

class StoredAdvice implements Advice {
	readonly id: AdviceId;
	source: string | undefined;
	failed = false;
	readonly missing = new Set<string>();
	blanket: TransferPolicy = { mode: "move", allowFramework: true };
	#table: HashTable | undefined;

	constructor(id: AdviceId) {
		this.id = id;
	}

	get hashCount(): number {
		return this.#table?.size ?? 0;
	}

	add(action: FetchAction): void {
		if (action.source !== undefined) {
			if (this.source !== undefined && this.source !== action.source) {
				this.failed = true;
				return;
			}
			this.source = action.source;
			this.blanket = {
				mode: action.mode === "move" ? this.blanket.mode : "copy",
				allowFramework: action.allowFramework && this.blanket.allowFramework,
			};
		}
		const value =
			(action.mode === "move" ? MOVE : 0) |
			(action.allowFramework ? 0 : DENY_FRAMEWORK) |
			(action.source === undefined ? NO_SOURCE : 0);
		this.#table ??= new HashTable(action.hashes.length);
		for (const hash of action.hashes) {
			// Naming a hash for local tiers takes nothing away from what a source was named for.
			const sourced =
				action.source === undefined &&
				((this.#table.get(hash) ?? NO_SOURCE) & NO_SOURCE) === 0;
			this.#table.set(hash, sourced ? value & ~NO_SOURCE : value);
		}
	}

	policyFor(hash: RouterHash): TransferPolicy | undefined {
		const value = this.#table?.get(hash);
		if (value === undefined) return undefined;
		// A hash named for local tiers only is not to be asked of a source that another action brought in.
		if ((value & NO_SOURCE) !== 0 && this.source !== undefined)
			return undefined;
		return POLICIES[value & (MOVE | DENY_FRAMEWORK)];
	}
}
