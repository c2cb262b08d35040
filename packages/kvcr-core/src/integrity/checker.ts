/**
 * End-to-end integrity of managed blocks: a checksum per block, kept while the block is ready, and the check of what arrives.
 * Hashing runs in short turns of its own, never inside a message or an API call.
 */
import type { ManagedCache, Residency } from "../cache/index.js";
import type { Clock, Timer } from "../ports/index.js";
import type { BlockHasher } from "./hasher.js";

/** Bytes hashed in one turn of the event loop: about a millisecond. */
const TURN_BYTES = 2 << 20;

/** What a check found. */
export type Verdict = "right" | "integrity_failed" | "closed";

interface Task {
	readonly residency: Residency;
	/** Undefined: compute and keep. */
	readonly expected: bigint | undefined;
	readonly done: ((verdict: Verdict) => void) | undefined;
}

interface Running {
	readonly task: Task;
	readonly hashing: Generator<number, bigint, void>;
}

/** What the checker needs. */
export interface IntegrityOptions {
	readonly clock: Clock;
	readonly cache: ManagedCache;
	readonly hasher: BlockHasher;
	/** Runs a verdict in the owner's turn. */
	readonly toOwner: (task: () => void) => void;
	/** Counts the blocks that came from peers. */
	readonly count: (result: "verified" | "failed" | "unchecked") => void;
}

export class IntegrityChecker {
	readonly #options: IntegrityOptions;
	readonly #checksums = new WeakMap<Residency, bigint>();
	/** Checks come before computations: somebody waits for them. */
	readonly #checks: Task[] = [];
	readonly #computations: Task[] = [];
	#current: Running | undefined;
	#timer: Timer | undefined;
	#closed = false;

	constructor(options: IntegrityOptions) {
		this.#options = options;
	}

	/** Blocks that are not hashed yet. */
	get pending(): number {
		const running = this.#current === undefined ? 0 : 1;
		return this.#checks.length + this.#computations.length + running;
	}

	/** The checksum of a ready block, once it is computed. */
	checksumOf(residency: Residency): bigint | undefined {
		return this.#checksums.get(residency);
	}

	/** A block became ready: its checksum is computed in the background, unless a check has brought it along. */
	keep(residency: Residency): void {
		if (this.#closed || this.#checksums.has(residency)) return;
		this.#computations.push({
			residency,
			expected: undefined,
			done: undefined,
		});
		this.#arm();
	}

	/** Checks a block whose bytes have arrived. `done` is called once, in the owner's turn. The slots must stay taken until then. */
	verify(
		residency: Residency,
		expected: bigint,
		done: (verdict: Verdict) => void,
	): void {
		if (this.#closed) {
			done("closed");
			return;
		}
		this.#checks.push({ residency, expected, done });
		this.#arm();
	}

	/** A block arrived of which nobody said a checksum: the source keeps none, has not computed it yet, or was not asked. */
	unchecked(): void {
		this.#options.count("unchecked");
	}

	/** Ends every check with `closed`. Call it in the owner's turn. */
	close(): void {
		this.#closed = true;
		this.#timer?.cancel();
		this.#timer = undefined;
		const open = this.#checks.splice(0);
		if (this.#current?.task.done !== undefined) open.push(this.#current.task);
		this.#current = undefined;
		this.#computations.length = 0;
		for (const { done } of open) done?.("closed");
	}

	#arm(): void {
		this.#timer ??= this.#options.clock.schedule(0, () => this.#turn());
	}

	#turn(): void {
		this.#timer = undefined;
		let budget = TURN_BYTES;
		while (budget > 0) {
			this.#current ??= this.#begin();
			if (this.#current === undefined) return;
			const { task, hashing } = this.#current;
			if (!this.#hasBytes(task)) {
				this.#current = undefined;
				continue;
			}
			const step = hashing.next();
			if (!step.done) {
				budget -= step.value;
				continue;
			}
			this.#current = undefined;
			this.#ended(task, step.value);
		}
		this.#arm();
	}

	#begin(): Running | undefined {
		const { cache, hasher } = this.#options;
		for (;;) {
			const task = this.#checks.shift() ?? this.#computations.shift();
			if (task === undefined) return undefined;
			if (this.#hasBytes(task))
				return { task, hashing: hasher.hash(cache.bytesOf(task.residency)) };
		}
	}

	/** A block that is only to be kept in mind may have gone meanwhile; its slots belong to another then. */
	#hasBytes({ residency, expected }: Task): boolean {
		return residency.state === (expected === undefined ? "READY" : "FILLING");
	}

	#ended({ residency, expected, done }: Task, checksum: bigint): void {
		const { toOwner, count } = this.#options;
		const right = expected === undefined || expected === checksum;
		if (right) this.#checksums.set(residency, checksum);
		if (done === undefined) return;
		count(right ? "verified" : "failed");
		toOwner(() => done(right ? "right" : "integrity_failed"));
	}
}
