/** Requests of an engine, and what became of them. */
import type { ReqContext } from "kvcr-vllm-adapter";

/** A request as a client sends it. */
export interface EngineRequest {
	readonly id: string;
	readonly tokens: readonly number[];
	readonly loraName?: string;
	readonly cacheSalt?: string;
	/** Metadata, handed to the tier as it is. */
	readonly kvTransferParams?: ReqContext["kvTransferParams"];
	readonly kvHints?: unknown;
	/** Steps it goes on for after its output is known; default 1. */
	readonly lifetimeSteps?: number;
	/**
	 * Gives its blocks other full hashes with the same low 64 bits, as a collision would: what the router cannot tell apart.
	 */
	readonly twin?: boolean;
}

/** What became of a request. */
export interface RequestReport {
	/** Digest over the KV bytes it ran with and its remaining tokens, hexadecimal. */
	readonly output: string;
	/** Where its blocks came from. */
	readonly blocks: {
		readonly cached: number;
		readonly loaded: number;
		readonly computed: number;
	};
	/** Load jobs for it that failed, in whole or in part. */
	readonly failedLoads: number;
}
