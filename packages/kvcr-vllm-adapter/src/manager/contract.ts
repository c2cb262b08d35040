/**
 * vLLM's contract with a secondary offloading tier, as far as KVCR takes part in it. Names follow vLLM's Python names
 * (`submit_load` is `submitLoad`); numbers stay numbers, offload keys stay bytes.
 */

/** A block in one KV cache group: block hash followed by the group index, 4 bytes big-endian. */
export type OffloadKey = Uint8Array;

/** Names one job of the engine: a non-negative safe integer, unique while the job is open. */
export type JobId = number;

/** What the engine knows about the request a call is made for. */
export interface ReqContext {
	/** Name of the request, as the engine gave it. */
	readonly reqId: string;
	/** Free-form metadata of the request; a hint is under {@link KV_HINT_KEY}. */
	readonly kvTransferParams?: Readonly<Record<string, unknown>> | null;
	/** The hint envelope, in releases of vLLM that have a place of its own for it. Counts before `kvTransferParams`. */
	readonly kvHints?: unknown;
}

/** Key of the hint envelope in a request's metadata (`kv_transfer_params`). */
export const KV_HINT_KEY = "kv_hint";

/** Answer of a look-up; `RETRY` asks the scheduler to look again in a later step. `HIT_PENDING` is never said by this tier. */
export type LookupResult = "MISS" | "HIT" | "HIT_PENDING" | "RETRY";

/** Blocks to move between this tier and the primary tier. */
export interface TransferJob {
	/** Name of the job; `JobResult` repeats it. */
	readonly jobId: JobId;
	/** Each key once. */
	readonly keys: readonly OffloadKey[];
	/** Block of the primary tier for each key, in the order of `keys`. */
	readonly blockIds: ArrayLike<number>;
	/** The request it belongs to. */
	readonly reqContext: ReqContext;
}

/** The end of a job. From now on the engine may reuse the job's blocks of the primary tier. */
export interface JobResult {
	/** The job that ended. */
	readonly jobId: JobId;
	/** True when every block was moved. */
	readonly success: boolean;
	/** Loads that did not succeed as a whole: the blocks that are complete all the same. */
	readonly successfulKeys?: readonly OffloadKey[];
}

/** How a request's blocks are to be offloaded: this tier has no wish of its own. */
export interface RequestOffloadingContext {
	/** Block by block as they fill, or the request as a whole. */
	readonly policy: "chunk_level" | "request_level";
}

/** Blocks that appeared in, or left, a medium of this tier. */
export interface OffloadingEvent {
	/** Keys of the blocks. */
	readonly keys: readonly OffloadKey[];
	/** `CPU`: managed host memory; `STORAGE`: local disk. */
	readonly medium: "CPU" | "STORAGE";
	/** True: they left; false: they appeared. */
	readonly removed: boolean;
	/** The tier that speaks. */
	readonly ownership: "kvcr";
	/** Every store will be followed by a removal, so that an index may rely on it. */
	readonly removalExpected: true;
}

/**
 * The engine's offloading manager as a tier sees it, during one call of `serveExternalRequests`. Per request of a peer:
 * `onNewRequest`, look-ups, `createStoreJob`, and `onRequestFinished` in every case.
 */
export interface ParentManager {
	/** Announces a request. What it returns is not used. */
	onNewRequest(context: ReqContext): unknown;
	/** Whether the primary tier has a block; on `HIT` a store job may name it. */
	lookup(key: OffloadKey, context: ReqContext): LookupResult;
	/**
	 * Keeps blocks of the primary tier in place until the job is reported finished. Nothing (also `null`, which a bridge makes
	 * of Python's None): they cannot be kept now, and the peer goes without them.
	 */
	createStoreJob(
		keys: readonly OffloadKey[],
		context: ReqContext,
	): Pick<TransferJob, "jobId" | "keys" | "blockIds"> | null | undefined;
	/** Ends a request that was announced, whatever became of it. */
	onRequestFinished(context: ReqContext): void;
}

/** Which KV cache events the engine publishes. */
export interface KvEventsConfig {
	/** `enable_kv_cache_events`: without it nobody takes events, and router hashes cannot be resolved here. */
	readonly enableKvCacheEvents: boolean;
	/** `self_describing_kv_events`: needed for events of a tier with memory of its own. */
	readonly selfDescribingKvEvents: boolean;
}
