/**
 * Copies between registered memories of this process. Small copies happen at once; large ones in slices, so that neither the
 * owner nor progress is held up for longer than a slice takes.
 */
import type { Clock, Timer } from "../ports/index.js";

/** Copied inside the call that asks for it, in bytes. */
const AT_ONCE_BYTES = 1 << 20;
/** Copied between two turns of the event loop, in bytes: about a millisecond. */
const SLICE_BYTES = 4 << 20;

/** One block to copy: equally many sources and targets, pairwise of equal length. */
export interface CopyJob {
	readonly sources: readonly Uint8Array[];
	readonly targets: readonly Uint8Array[];
	/** Told when the bytes are there, or cannot be copied. */
	readonly listener: CopyListener;
	/** Given back to the listener. */
	readonly entry: number;
	cancelled: boolean;
}

export interface CopyListener {
	copied(entry: number, ok: boolean): void;
}

export class LocalCopier {
	readonly #clock: Clock;
	/** Runs what became of a sliced copy in the owner's turn. */
	readonly #toOwner: (task: () => void) => void;
	#queue: CopyJob[] = [];
	/** How far the first job of the queue has come. */
	#piece = 0;
	#offset = 0;
	#timer: Timer | undefined;

	constructor(clock: Clock, toOwner: (task: () => void) => void) {
		this.#clock = clock;
		this.#toOwner = toOwner;
	}

	/** Blocks that are not copied yet. */
	get size(): number {
		return this.#queue.length;
	}

	/** Copies blocks in order. Must be called in the owner's turn; the listeners are told in an owner's turn as well. */
	copy(jobs: readonly CopyJob[]): void {
		let budget = AT_ONCE_BYTES;
		let next = 0;
		if (this.#queue.length === 0) {
			for (; next < jobs.length && budget > 0; next += 1) {
				const job = jobs[next] as CopyJob;
				budget -= bytesOf(job);
				if (budget < 0) break;
				job.listener.copied(job.entry, perform(job));
			}
		}
		if (next >= jobs.length) return;
		this.#queue = this.#queue.concat(jobs.slice(next));
		this.#arm();
	}

	/** Fails everything that waits. */
	close(): void {
		this.#timer?.cancel();
		this.#timer = undefined;
		const queue = this.#queue;
		this.#queue = [];
		// What is asked for after this begins at its own beginning.
		this.#piece = 0;
		this.#offset = 0;
		for (const job of queue) job.listener.copied(job.entry, false);
	}

	#arm(): void {
		this.#timer ??= this.#clock.schedule(0, () => this.#slice());
	}

	#slice(): void {
		this.#timer = undefined;
		let budget = SLICE_BYTES;
		let count = 0;
		const done: { job: CopyJob; ok: boolean }[] = [];
		while (count < this.#queue.length && budget > 0) {
			const job = this.#queue[count] as CopyJob;
			const copied = job.cancelled ? undefined : this.#advance(job, budget);
			budget -= copied ?? 0;
			if (copied !== undefined && this.#piece < job.sources.length) continue;
			this.#piece = 0;
			this.#offset = 0;
			count += 1;
			done.push({ job, ok: copied !== undefined });
		}
		this.#queue = this.#queue.slice(count);
		if (this.#queue.length > 0) this.#arm();
		if (done.length === 0) return;
		this.#toOwner(() => {
			for (const { job, ok } of done) job.listener.copied(job.entry, ok);
		});
	}

	/** Copies the next bytes of a job, at most `budget` of one piece. Undefined: it cannot be copied. */
	#advance(job: CopyJob, budget: number): number | undefined {
		const source = job.sources[this.#piece];
		const target = job.targets[this.#piece];
		if (
			source === undefined ||
			target === undefined ||
			!areEqualViews(source, target)
		)
			return undefined;
		const from = this.#offset;
		const end = Math.min(source.byteLength, from + budget);
		target.set(source.subarray(from, end), from);
		this.#offset = end;
		if (end === source.byteLength) {
			this.#piece += 1;
			this.#offset = 0;
		}
		return end - from;
	}
}

function bytesOf(job: CopyJob): number {
	let bytes = 0;
	for (const source of job.sources) bytes += source.byteLength;
	return bytes;
}

/** Copies a whole job. False when memory ended meanwhile. */
function perform(job: CopyJob): boolean {
	for (const [piece, source] of job.sources.entries()) {
		const target = job.targets[piece];
		if (!areEqualViews(source, target)) return false;
		target?.set(source);
	}
	return true;
}

/** False for memory that has ended: a view of a released region has length 0. */
function areEqualViews(
	source: Uint8Array | undefined,
	target: Uint8Array | undefined,
): boolean {
	return (
		source !== undefined &&
		target !== undefined &&
		source.byteLength > 0 &&
		source.byteLength === target.byteLength
	);
}
