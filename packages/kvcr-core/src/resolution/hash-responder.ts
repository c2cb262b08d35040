/**
 * The source's side of hash resolution. Runs on progress, holds nothing, changes nothing, keeps no index of its own: what a
 * hash names is the adapter's knowledge, what is resident the cache's.
 */

import {
	AmbiguousHashError,
	HashNotFoundError,
	InvalidArgumentError,
} from "../ports/errors.js";
import { disregard } from "../ports/foreign.js";
import type { KeyAdapter } from "../ports/key-adapter.js";
import {
	type BlockKey,
	blockKey,
	type Incarnation,
	type RouterHash,
} from "../ports/names.js";
import {
	type HashesResolvedMessage,
	type HashResult,
	MAX_LABELS_PER_KEY,
	type ResolveHashesMessage,
	UNRESOLVED,
	type UnresolvedStatus,
} from "../protocol/index.js";
import { MAX_REPLY_RESULT_BYTES, resultBytes } from "./reply-size.js";

/** Labels and piece sizes of a block in ready managed G2. */
export interface ResidentLayout {
	readonly labels: readonly string[];
	/** Bytes of each piece. */
	readonly sizes: readonly number[];
	/** XXH64 of the block, where it is kept. */
	readonly checksum?: bigint | undefined;
}

/** What a responder needs. */
export interface HashResponderOptions {
	/** Absent: every hash is `unsupported`. */
	readonly adapter: KeyAdapter | undefined;
	/** Identity of this instance. */
	readonly incarnation: Incarnation;
	/** The layout of a block that is ready in managed G2; `undefined` for anything else. Touches no order of use. */
	readonly residentLayout: (key: BlockKey) => ResidentLayout | undefined;
	/** Told what an adapter threw, or returned, that it must not. */
	readonly onLookupError?: (error: unknown) => void;
}

/** A `hashes_resolved` without its header. */
export type HashesResolvedBody = Omit<HashesResolvedMessage, "header">;

/** Answers `resolve_hashes`. */
export class HashResponder {
	readonly #options: HashResponderOptions;

	constructor(options: HashResponderOptions) {
		this.#options = options;
	}

	/**
	 * One result per hash, in order. A request of this very instance, through whatever endpoint it came, is answered
	 * `self_source` before the adapter is asked anything. Never throws.
	 */
	answer(message: ResolveHashesMessage): HashesResolvedBody {
		return {
			type: "hashes_resolved",
			resolutionId: message.resolutionId,
			results: this.#results(message),
		};
	}

	#results(message: ResolveHashesMessage): readonly HashResult[] {
		const { adapter, incarnation } = this.#options;
		if (message.header.senderIncarnation === incarnation)
			return message.hashes.map(() => UNRESOLVED.self_source);
		if (
			adapter === undefined ||
			(adapter.decodeFromRouter === undefined &&
				adapter.decodeManyFromRouter === undefined)
		)
			return message.hashes.map(() => UNRESOLVED.unsupported);
		const lookups =
			this.#lookUpMany(adapter, message.hashes) ??
			message.hashes.map((hash) => this.#lookUp(adapter, hash));
		let bytes = 0;
		return lookups.map((lookup) => {
			const result =
				typeof lookup === "string"
					? UNRESOLVED[lookup]
					: this.#resident(lookup);
			bytes += resultBytes(result);
			return bytes > MAX_REPLY_RESULT_BYTES ? UNRESOLVED.lookup_failed : result;
		});
	}

	/** The answers of a batch look-up; `undefined` when there is none to be had and hashes are to be looked up singly. */
	#lookUpMany(
		adapter: KeyAdapter,
		hashes: readonly RouterHash[],
	): (BlockKey | UnresolvedStatus)[] | undefined {
		if (adapter.decodeManyFromRouter === undefined) return undefined;
		try {
			const answers: unknown = adapter.decodeManyFromRouter(hashes);
			if (!Array.isArray(answers) || answers.length !== hashes.length) {
				this.#misbehaved(
					"decodeManyFromRouter",
					answers,
					"one answer per hash",
				);
				return undefined;
			}
			return answers.map((answer) =>
				answer === "not_found" || answer === "ambiguous_hash"
					? answer
					: this.#checked(answer, "decodeManyFromRouter"),
			);
		} catch (error) {
			this.#options.onLookupError?.(error);
			return undefined;
		}
	}

	#lookUp(adapter: KeyAdapter, hash: RouterHash): BlockKey | UnresolvedStatus {
		if (adapter.decodeFromRouter === undefined) return "lookup_failed";
		try {
			return this.#checked(adapter.decodeFromRouter(hash), "decodeFromRouter");
		} catch (error) {
			if (error instanceof HashNotFoundError) return "not_found";
			if (error instanceof AmbiguousHashError) return "ambiguous_hash";
			this.#options.onLookupError?.(error);
			return "lookup_failed";
		}
	}

	#checked(answer: unknown, method: string): BlockKey | "lookup_failed" {
		try {
			return blockKey(answer as Uint8Array, `KeyAdapter.${method}`, "result");
		} catch {
			this.#misbehaved(method, answer, "a block key at once");
			return "lookup_failed";
		}
	}

	#misbehaved(method: string, answer: unknown, expected: string): void {
		// An adapter that answers with a promise may reject it later, and nobody else will listen.
		disregard(answer);
		this.#options.onLookupError?.(
			new InvalidArgumentError(
				`KeyAdapter.${method}`,
				"result",
				answer,
				expected,
			),
		);
	}

	#resident(key: BlockKey): HashResult {
		let layout: ResidentLayout | undefined;
		try {
			layout = this.#options.residentLayout(key);
		} catch (error) {
			this.#options.onLookupError?.(error);
			return UNRESOLVED.lookup_failed;
		}
		if (
			layout === undefined ||
			layout.labels.length === 0 ||
			layout.labels.length > MAX_LABELS_PER_KEY ||
			layout.labels.length !== layout.sizes.length
		)
			return UNRESOLVED.not_resident;
		return {
			status: "resolved",
			key,
			labels: layout.labels,
			sizes: layout.sizes,
			checksum: layout.checksum,
		};
	}
}
