/** Errors of managed G2. All but `PolicyError` mean that the code which drives the cache made a mistake. */
import { KvcrError, showValue } from "../ports/index.js";

/** A state change that the life of a residency does not have, e.g. completing a fill that was discarded. */
export class ResidencyStateError extends KvcrError {
	constructor(operation: string, from: string, expected: string) {
		super(
			"ERR_KVCR_RESIDENCY_STATE",
			`${operation}: the residency is ${from}, expected ${expected}`,
		);
	}
}

/** A claim was taken on memory that cannot be claimed, or given back more often than it was taken. */
export class ClaimError extends KvcrError {
	constructor(operation: string, reason: string) {
		super("ERR_KVCR_CLAIM", `${operation}: ${reason}`);
	}
}

/** A slot was freed twice, or does not exist. */
export class SlotError extends KvcrError {
	constructor(operation: string, pool: string, slot: number, reason: string) {
		super(
			"ERR_KVCR_SLOT",
			`${operation}: slot ${slot} of pool ${showValue(pool)} ${reason}`,
		);
	}
}

/** A placement policy threw, or answered with something that is no answer. The admission at hand failed. */
export class PolicyError extends KvcrError {
	/** `reason` says what the method did instead of answering. */
	constructor(method: string, reason: string, options?: ErrorOptions) {
		super("ERR_KVCR_POLICY", `KVCachePolicy.${method}: ${reason}`, options);
	}
}

/** A policy called the cache from inside one of its decisions. */
export class ReentrantPolicyError extends KvcrError {
	constructor(operation: string) {
		super(
			"ERR_KVCR_REENTRANT_POLICY",
			`${operation}: managed G2 cannot be changed from inside a policy decision`,
		);
	}
}
