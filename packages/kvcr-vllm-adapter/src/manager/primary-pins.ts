/**
 * Pins on the primary tier, kept as store jobs of the engine: a store job holds its blocks in place until it is reported as
 * finished, which is what a pin needs. Jobs can be made only while the engine lends its manager.
 */
import {
	type BlockKey,
	disregard,
	type FrameworkPiece,
	type FrameworkPins,
	type GrantedPin,
	KvcrError,
	keyText,
	type Logger,
	type MemoryRegion,
	type PinHandle,
	type PinRequestId,
} from "kvcr-core";
import type {
	JobId,
	JobResult,
	OffloadKey,
	ParentManager,
	ReqContext,
	TransferJob,
} from "./contract.js";

type StoreJob = Pick<TransferJob, "jobId" | "keys" | "blockIds">;

/** See the comment at the top of this file. */
export class PrimaryPins implements FrameworkPins {
	readonly #primary: MemoryRegion;
	readonly #logger: Logger;
	readonly #pending = new Map<PinRequestId, readonly BlockKey[]>();
	#answers: (readonly [PinRequestId, GrantedPin | undefined])[] = [];
	readonly #active = new Map<PinHandle, JobId>();
	#results: JobResult[] = [];
	#requests = 0n;
	#served = 0;
	#failed = 0;
	#wake: (() => void) | undefined;

	/**
	 * @param primary Memory of the primary tier: element b is block b.
	 * @param logger Must not throw.
	 */
	constructor(primary: MemoryRegion, logger: Logger) {
		this.#primary = primary;
		this.#logger = logger;
	}

	/** Requests the engine has not been asked about yet. */
	get pending(): number {
		return this.#pending.size;
	}

	/** Pins that are held. */
	get active(): number {
		return this.#active.size;
	}

	/** Requests the engine failed to answer. */
	get failed(): number {
		return this.#failed;
	}

	attach(wake: () => void): void {
		this.#wake = wake;
	}

	/** Only notes the request: the engine's manager is there in {@link serve} alone. */
	request(keys: readonly BlockKey[]): PinRequestId {
		this.#requests += 1n;
		this.#pending.set(this.#requests, [...keys]);
		return this.#requests;
	}

	pollResults(): Iterable<readonly [PinRequestId, GrantedPin | undefined]> {
		const answers = this.#answers;
		this.#answers = [];
		return answers;
	}

	cancel(request: PinRequestId): void {
		this.#pending.delete(request);
	}

	/** Finishes the store job behind a pin. A pin that is not held was given back before, which is fine. */
	release(handle: PinHandle): boolean {
		const jobId = this.#active.get(handle);
		if (jobId !== undefined) {
			this.#active.delete(handle);
			this.#results.push({ jobId, success: true });
		}
		return true;
	}

	/** Answers every request that waits. The manager is not kept. */
	serve(parent: ParentManager): void {
		const last = this.#requests;
		let served = false;
		// The engine may collect, serve and shut down from inside: each request leaves before it is asked about.
		for (const [id, keys] of this.#pending) {
			if (id > last) break;
			this.#pending.delete(id);
			// First the answer, then the list, which may be another by then.
			const answer = this.#pin(parent, keys);
			this.#answers.push([id, answer]);
			served = true;
		}
		if (served) this.#wake?.();
	}

	/** Gives back what was granted and is not going to be collected. */
	close(): void {
		this.#pending.clear();
		for (const [, granted] of this.pollResults())
			if (granted !== undefined) this.release(granted.handle);
	}

	/** Store jobs that have ended since the last call. */
	takeResults(): JobResult[] {
		const results = this.#results;
		this.#results = [];
		return results;
	}

	#pin(
		parent: ParentManager,
		keys: readonly BlockKey[],
	): GrantedPin | undefined {
		this.#served += 1;
		const context: ReqContext = { reqId: `kvcr-source:${this.#served}` };
		let started = false;
		let job: StoreJob | undefined;
		try {
			disregard(parent.onNewRequest(context));
			started = true;
			const hits = keys.filter((key) => {
				const found = parent.lookup(key, context);
				disregard(found);
				return found === "HIT";
			});
			if (hits.length === 0) return undefined;
			job = parent.createStoreJob(hits, context) ?? undefined;
			disregard(job);
			return job && this.#grant(keys, hits, job);
		} catch (error) {
			this.#failed += 1;
			if (Number.isSafeInteger(job?.jobId) && !this.#isActive(job?.jobId))
				this.#results.push({ jobId: job?.jobId as JobId, success: false });
			this.#logger.warn(
				{ error },
				"the engine failed to pin blocks for a peer",
			);
			return undefined;
		} finally {
			if (started) this.#finishRequest(parent, context);
		}
	}

	#finishRequest(parent: ParentManager, context: ReqContext): void {
		try {
			disregard(parent.onRequestFinished(context));
		} catch (error) {
			this.#logger.warn(
				{ error },
				"the engine failed to finish the request of a peer",
			);
		}
	}

	/** @throws KvcrError when the job is not one for these keys. */
	#grant(
		keys: readonly BlockKey[],
		hits: readonly OffloadKey[],
		{ jobId, keys: jobKeys, blockIds }: StoreJob,
	): GrantedPin {
		if (!Number.isSafeInteger(jobId)) throw mismatch(jobId);
		const asked = new Set(hits.map(keyText));
		const pieces = new Map<string, FrameworkPiece[]>();
		for (const [index, key] of jobKeys.entries()) {
			const element = blockIds[index];
			const text = keyText(key);
			if (
				element === undefined ||
				!Number.isSafeInteger(element) ||
				element < 0 ||
				element >= this.#primary.elementCount ||
				!asked.has(text) ||
				pieces.has(text)
			)
				throw mismatch(jobId);
			pieces.set(text, [{ label: "", region: this.#primary, element }]);
		}
		if (blockIds.length !== jobKeys.length || pieces.size === 0)
			throw mismatch(jobId);
		const handle = `kvcr-job-${jobId}`;
		if (this.#active.has(handle)) throw mismatch(jobId);
		this.#active.set(handle, jobId);
		return {
			handle,
			blocks: new Map(keys.map((key) => [key, pieces.get(keyText(key))])),
		};
	}

	#isActive(jobId: JobId | undefined): boolean {
		return this.#active.has(`kvcr-job-${jobId}`);
	}
}

function mismatch(jobId: JobId): KvcrError {
	return new KvcrError(
		"ERR_KVCR_STORE_JOB",
		`serveExternalRequests: store job ${jobId} does not pair keys that were asked for with blocks of the primary tier`,
	);
}
