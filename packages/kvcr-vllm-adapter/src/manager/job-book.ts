/** Jobs of the engine: which operation carries each out, and results that wait to be collected. */
import {
	type EntryResult,
	InvalidArgumentError,
	keyText,
	type MemoryRegion,
	type OperationResult,
	type OpHandle,
} from "kvcr-core";
import { checkKey } from "../reverse-map/packed-key.js";
import type { JobId, JobResult, OffloadKey, TransferJob } from "./contract.js";

/** Which way the bytes go. */
export type JobKind = "load" | "store";

interface OpenJob {
	readonly kind: JobKind;
	readonly jobId: JobId;
	readonly keys: readonly OffloadKey[];
	readonly blockIds: readonly number[];
}

/** A job that is over, apart from memory that may still be written. */
interface WithheldJob {
	readonly result: JobResult;
	readonly blockIds: readonly number[];
}

/** A job whose arguments were checked. */
export interface CheckedJob {
	readonly jobId: JobId;
	readonly keys: readonly OffloadKey[];
	readonly blockIds: readonly number[];
}

/** See the comment at the top of this file. */
export class JobBook {
	readonly #byOperation = new Map<OpHandle, OpenJob>();
	readonly #withheld = new Map<JobId, WithheldJob>();
	/** Jobs that are not collected yet, in whichever state. */
	readonly #known = new Set<JobId>();
	#finished: JobResult[] = [];
	#foreign = 0;
	/** Operations that are just being started, and completions that were collected meanwhile: they may be theirs. */
	#starting = 0;
	readonly #early = new Map<OpHandle, OperationResult>();

	/** Jobs an operation is running for. */
	get running(): number {
		return this.#byOperation.size + this.#starting;
	}

	/** Jobs that failed, and whose blocks may still be written. */
	get withheld(): number {
		return this.#withheld.size;
	}

	/** Completions of operations that no job asked for. */
	get foreign(): number {
		return this.#foreign;
	}

	/**
	 * Checks a job before anything changes.
	 * @throws InvalidArgumentError naming the field: a job ID in use, keys and blocks that do not pair up, a key that cannot
	 * be vLLM's, a key or a block twice, a block outside the primary tier.
	 */
	check(
		job: TransferJob,
		primary: MemoryRegion,
		operation: string,
	): CheckedJob {
		const { jobId, keys, blockIds } = job ?? {};
		const refuse = (field: string, value: unknown, expected: string): never => {
			throw new InvalidArgumentError(
				operation,
				`job.${field}`,
				value,
				expected,
			);
		};
		if (!Number.isSafeInteger(jobId) || jobId < 0)
			refuse("jobId", jobId, "a non-negative safe integer");
		if (this.#known.has(jobId))
			refuse("jobId", jobId, "the ID of no job that is open or not collected");
		if (!Array.isArray(keys)) refuse("keys", keys, "an array of offload keys");
		if (typeof blockIds?.length !== "number" || blockIds.length !== keys.length)
			refuse("blockIds", blockIds, `${keys.length} block IDs, one per key`);
		const seenKeys = new Set<string>();
		const seenBlocks = new Set<number>();
		for (const [index, key] of keys.entries()) {
			const block = blockIds[index] as number;
			// A key without router hash could be stored, but named by no hint and no event.
			checkKey(key, operation, `job.keys[${index}]`);
			if (
				!Number.isSafeInteger(block) ||
				block < 0 ||
				block >= primary.elementCount
			)
				refuse(
					`blockIds[${index}]`,
					block,
					`a block of the primary tier, 0 to ${primary.elementCount - 1}`,
				);
			// The second of two equal keys would be reported as moved although its block was not touched.
			const text = keyText(key);
			if (seenKeys.has(text)) refuse(`keys[${index}]`, key, "named once");
			if (seenBlocks.has(block))
				refuse(`blockIds[${index}]`, block, "named once");
			seenKeys.add(text);
			seenBlocks.add(block);
		}
		return { jobId, keys: [...keys], blockIds: Array.from(blockIds) };
	}

	/**
	 * Enters a checked job and starts the operation that carries it out. The start may run code of the caller, which may
	 * collect completions, the one of this very operation among them.
	 * @throws what `begin` throws; then there is no such job.
	 */
	start(
		kind: JobKind,
		job: CheckedJob,
		begin: () => OpHandle,
		atRisk: (blockId: number) => boolean,
	): void {
		this.#known.add(job.jobId);
		this.#starting += 1;
		let operation: OpHandle | undefined;
		try {
			operation = begin();
			this.#byOperation.set(operation, { kind, ...job });
		} finally {
			this.#starting -= 1;
			if (operation === undefined) this.#known.delete(job.jobId);
			else this.#claim(operation, atRisk);
			if (this.#starting === 0) {
				this.#foreign += this.#early.size;
				this.#early.clear();
			}
		}
	}

	/** Enters a result that no operation is needed for. */
	finish(result: JobResult): void {
		this.#known.add(result.jobId);
		this.#finished.push(result);
	}

	/**
	 * An operation has completed.
	 * @param atRisk Whether a failed transfer may still write to a block. Its job is not reported before that has ended: the
	 * engine would give the block to somebody else.
	 */
	completed(
		operation: OperationResult,
		atRisk: (blockId: number) => boolean,
	): void {
		const { handle, entries } = operation;
		const job = this.#byOperation.get(handle);
		if (job === undefined) {
			if (this.#starting > 0) this.#early.set(handle, operation);
			else this.#foreign += 1;
			return;
		}
		this.#byOperation.delete(handle);
		const result = resultOf(job, entries);
		const uncertain = job.blockIds.filter(
			(block, index) => entries[index]?.reason === "uncertain" && atRisk(block),
		);
		if (uncertain.length === 0) this.#finished.push(result);
		else this.#withheld.set(job.jobId, { result, blockIds: uncertain });
	}

	/** Lets go of the withheld jobs whose blocks are safe now. */
	settle(atRisk: (blockId: number) => boolean): void {
		for (const [jobId, { result, blockIds }] of this.#withheld) {
			if (blockIds.some(atRisk)) continue;
			this.#withheld.delete(jobId);
			this.#finished.push(result);
		}
	}

	#claim(handle: OpHandle, atRisk: (blockId: number) => boolean): void {
		const early = this.#early.get(handle);
		if (early === undefined) return;
		this.#early.delete(handle);
		this.completed(early, atRisk);
	}

	/** Hands out what has finished, each result once. */
	take(): JobResult[] {
		const finished = this.#finished;
		this.#finished = [];
		for (const { jobId } of finished) this.#known.delete(jobId);
		return finished;
	}
}

function resultOf(job: OpenJob, entries: readonly EntryResult[]): JobResult {
	const done = entries.filter(({ status }) => status === "SUCCESS");
	if (done.length === job.keys.length)
		return { jobId: job.jobId, success: true };
	return {
		jobId: job.jobId,
		success: false,
		...(job.kind === "load" && { successfulKeys: done.map(({ key }) => key) }),
	};
}
