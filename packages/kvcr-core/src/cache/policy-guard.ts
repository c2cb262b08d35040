/** Calls into a placement policy that may throw or answer nonsense: either becomes a value, never an exception. */
import { callOut, disregard } from "../ports/foreign.js";
import type {
	BlockMeta,
	IngestSource,
	KVCachePolicy,
	Logger,
	PlacementFailure,
} from "../ports/index.js";
import { reasonOf, showValue } from "../ports/index.js";
import { PolicyError } from "./errors.js";

/** Wraps one policy. Failures that no admission can report are logged, once per method. */
export class PolicyGuard {
	/** Whether anybody listens to blocks that come, or go. */
	readonly seesIngest: boolean;
	readonly seesRemove: boolean;
	readonly #policy: KVCachePolicy;
	readonly #logger: Logger;
	readonly #warned = new Set<string>();
	#deciding = false;

	constructor(policy: KVCachePolicy, logger: Logger) {
		this.#policy = policy;
		this.#logger = logger;
		this.seesIngest = typeof policy.onIngest === "function";
		this.seesRemove = typeof policy.onRemove === "function";
	}

	/** True while a decision of the policy is being awaited: the cache must not change then. */
	get deciding(): boolean {
		return this.#deciding;
	}

	decideIngest(
		meta: BlockMeta,
		source: IngestSource,
	): "keep" | "drop" | PolicyError {
		this.#deciding = true;
		try {
			const answer: unknown = this.#policy.decideIngest(meta, source);
			if (answer === "keep" || answer === "drop") return answer;
			disregard(answer);
			return new PolicyError("decideIngest", `answered ${showValue(answer)}`);
		} catch (cause) {
			return threw("decideIngest", cause);
		} finally {
			this.#deciding = false;
		}
	}

	decideEviction(meta: BlockMeta): "evict" | "keep" | PolicyError {
		this.#deciding = true;
		try {
			const answer: unknown = this.#policy.decideEviction(meta);
			if (answer === "evict" || answer === "keep") return answer;
			disregard(answer);
			return new PolicyError("decideEviction", `answered ${showValue(answer)}`);
		} catch (cause) {
			return threw("decideEviction", cause);
		} finally {
			this.#deciding = false;
		}
	}

	/** The score; the time of the last access when the policy has none to give, so that the block stays evictable. */
	evictionScore(meta: BlockMeta): number {
		this.#deciding = true;
		try {
			const score: unknown = this.#policy.evictionScore(meta);
			if (typeof score === "number" && !Number.isNaN(score)) return score;
			disregard(score);
			this.#warn(
				"evictionScore",
				new PolicyError("evictionScore", `answered ${showValue(score)}`),
			);
		} catch (cause) {
			this.#warn("evictionScore", cause);
		} finally {
			this.#deciding = false;
		}
		return meta.lastAccess;
	}

	/** What to do when slots are short. A policy that throws means `"fail"`. */
	decideRecovery(failure: PlacementFailure): "fail" | "wait" {
		this.#deciding = true;
		try {
			const answer: unknown = this.#policy.decideRecovery(failure);
			disregard(answer, (cause) => this.#warn("decideRecovery", cause));
			return answer === "wait" ? "wait" : "fail";
		} catch (cause) {
			this.#warn("decideRecovery", cause);
			return "fail";
		} finally {
			this.#deciding = false;
		}
	}

	onIngest(meta: BlockMeta): void {
		callOut(
			() => this.#policy.onIngest?.(meta),
			(cause) => this.#warn("onIngest", cause),
		);
	}

	onRemove(meta: BlockMeta): void {
		callOut(
			() => this.#policy.onRemove?.(meta),
			(cause) => this.#warn("onRemove", cause),
		);
	}

	#warn(method: string, error: unknown): void {
		if (this.#warned.has(method)) return;
		this.#warned.add(method);
		this.#logger.warn(
			{ method, error },
			"placement policy failed; further failures are not logged",
		);
	}
}

function threw(method: string, cause: unknown): PolicyError {
	return new PolicyError(method, `threw: ${reasonOf(cause)}`, { cause });
}
