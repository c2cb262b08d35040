/**
 * Polls an instance whenever it wakes, and offers promises and an async iterator instead: for applications that have no loop of
 * their own. Nothing runs while nothing happens; the process stays alive while somebody awaits.
 */
import type { Kvcr } from "./kvcr.js";
import type { DeliverDestination, DepositBlock } from "./owner/calls.js";
import type { OperationResult } from "./owner/operations.js";
import {
	ClosedError,
	checkObject,
	InvalidArgumentError,
	type OpHandle,
} from "./ports/index.js";

/** Longest delay Node's timers take, in milliseconds. */
const FOREVER_MS = 0x7fff_ffff;

interface Waiting {
	resolve(result: OperationResult): void;
	reject(error: unknown): void;
}

/** A call of an iterator's `next` that has no completion yet. */
interface Reading {
	resolve(result: IteratorResult<OperationResult, undefined>): void;
	reject(error: unknown): void;
}

const DONE = { done: true, value: undefined } as const;

/** Options of an awaited call. */
export interface AwaitOptions {
	/** Aborts the operation, best effort; the promise still settles with its result. */
	readonly signal?: AbortSignal;
}

/**
 * Drives one instance: polls it on every wake-up, and turns its operations into promises. Ends with the instance, or at
 * {@link KvcrDriver.stop}, which closes nothing.
 */
export class KvcrDriver {
	readonly #kvcr: Kvcr;
	readonly #stopListening: () => void;
	readonly #waiting = new Map<OpHandle, Waiting>();
	/** Completions nobody awaits, kept for the iterators. */
	#unclaimed: OperationResult[] = [];
	readonly #readings = new Set<Reading>();
	#scheduled = false;
	#failure: unknown;
	#stopped = false;
	#alive: NodeJS.Timeout | undefined;

	/**
	 * Starts at once. From now on only the driver may call `pollCompleted`.
	 * @throws InvalidArgumentError for anything but an instance.
	 */
	constructor(kvcr: Kvcr) {
		if (
			typeof kvcr?.onWake !== "function" ||
			typeof kvcr.pollCompleted !== "function"
		)
			throw new InvalidArgumentError(
				"new KvcrDriver",
				"kvcr",
				kvcr,
				"a Kvcr instance",
			);
		this.#kvcr = kvcr;
		this.#stopListening = kvcr.onWake(() => this.#schedule());
		this.#schedule();
	}

	/** `Kvcr.fetch`, awaited. @throws what the call throws, or the error that ended progress (as rejection). */
	async fetch(
		keys: Iterable<Uint8Array>,
		options: AwaitOptions & {
			/** Request whose advice applies. Default: none. */
			readonly requestId?: string;
			/** Labels the blocks must have. Default: as for `Kvcr.fetch`. */
			readonly expectedLayout?: readonly string[];
		} = {},
	): Promise<OperationResult> {
		const signal = signalOf(options, "KvcrDriver.fetch");
		return this.#await(() => this.#kvcr.fetch(keys, options), signal);
	}

	/** `Kvcr.deposit`, awaited. @throws what the call throws, or the error that ended progress (as rejection). */
	async deposit(
		blocks: Iterable<DepositBlock>,
		options: AwaitOptions & {
			/** Whether every success carries a release handle. Default false. */
			readonly noEvict?: boolean;
		} = {},
	): Promise<OperationResult> {
		const signal = signalOf(options, "KvcrDriver.deposit");
		return this.#await(() => this.#kvcr.deposit(blocks, options), signal);
	}

	/** `Kvcr.deliver`, awaited. @throws what the call throws, or the error that ended progress (as rejection). */
	async deliver(
		destinations: Iterable<DeliverDestination>,
		options: AwaitOptions & {
			/** Request whose advice applies. Default: none. */
			readonly requestId?: string;
		} = {},
	): Promise<OperationResult> {
		const signal = signalOf(options, "KvcrDriver.deliver");
		return this.#await(() => this.#kvcr.deliver(destinations, options), signal);
	}

	/**
	 * Completions of operations started on the instance itself. Several iterators share them: each completion goes to one.
	 * Ends when the driver stops or the instance was closed; `return` ends a waiting `next` too.
	 * @throws The error that ended progress (as rejection of `next`).
	 */
	completions(): AsyncIterableIterator<OperationResult, undefined> {
		const mine = new Set<Reading>();
		let over = false;
		const iterator: AsyncIterableIterator<OperationResult, undefined> = {
			next: async () => {
				if (over) return DONE;
				const result = await this.#read(mine).catch((error: unknown) => {
					over = true;
					throw error;
				});
				over ||= result.done === true;
				return result;
			},
			return: async () => {
				over = true;
				for (const reading of mine) {
					this.#readings.delete(reading);
					reading.resolve(DONE);
				}
				this.#keepAlive();
				return DONE;
			},
			[Symbol.asyncIterator]: () => iterator,
		};
		return iterator;
	}

	/** Stops polling. Promises that are still open are rejected with `ClosedError`; the instance stays usable. */
	stop(): void {
		if (this.#stopped) return;
		this.#stopped = true;
		this.#stopListening();
		this.#poll();
		this.#end();
	}

	/** The next completion nobody awaits. `mine` holds the reading while it waits. */
	async #read(
		mine: Set<Reading>,
	): Promise<IteratorResult<OperationResult, undefined>> {
		const next = this.#unclaimed.shift();
		if (next !== undefined) return { done: false, value: next };
		if (this.#failure !== undefined) throw this.#failure;
		if (this.#stopped) return DONE;
		let reading: Reading | undefined;
		try {
			return await new Promise((resolve, reject) => {
				reading = { resolve, reject };
				mine.add(reading);
				this.#readings.add(reading);
				this.#keepAlive();
			});
		} finally {
			if (reading !== undefined) mine.delete(reading);
		}
	}

	#await(
		start: () => OpHandle,
		signal: AbortSignal | undefined,
	): Promise<OperationResult> {
		// Nothing is started that nobody would hear of: its claims would never be given back.
		if (this.#failure !== undefined) return Promise.reject(this.#failure);
		if (this.#stopped)
			return Promise.reject(new ClosedError("KvcrDriver", "the driver"));
		let handle: OpHandle | undefined;
		const abort = (): void => {
			if (handle === undefined) return;
			try {
				this.#kvcr.abort(handle);
			} catch {
				// The instance is closing or has failed, which ends the operation as well. Nobody catches what a listener throws.
			}
			this.#schedule();
		};
		const unlisten = () => signal?.removeEventListener("abort", abort);
		// Before anything is begun: a signal is the caller's, and this may throw.
		signal?.addEventListener("abort", abort, { once: true });
		try {
			handle = start();
		} catch (error) {
			unlisten();
			throw error;
		}
		// A callback inside the call may have stopped the driver: nobody would hear of the operation.
		if (this.#stopped) {
			unlisten();
			return this.#orphaned(handle);
		}
		const begun = handle;
		const promise = new Promise<OperationResult>((resolve, reject) => {
			this.#waiting.set(begun, { resolve, reject });
			this.#keepAlive();
		});
		if (signal?.aborted) abort();
		this.#schedule();
		return promise.finally(unlisten);
	}

	/** An operation whose driver was stopped while it began: aborted, and what the last poll took of it given back. */
	#orphaned(handle: OpHandle): Promise<OperationResult> {
		try {
			this.#kvcr.abort(handle);
			for (const result of this.#unclaimed)
				if (result.handle === handle)
					this.#kvcr.release(
						result.entries.flatMap((entry) => entry.releaseHandle ?? []),
					);
		} catch {
			// The instance is closing or has failed, which gives everything back as well.
		}
		return Promise.reject(new ClosedError("KvcrDriver", "the driver"));
	}

	/** Several wake-ups in one turn of the event loop cause one poll. */
	#schedule(): void {
		if (this.#scheduled || this.#stopped) return;
		this.#scheduled = true;
		queueMicrotask(() => {
			this.#scheduled = false;
			this.#poll();
		});
	}

	#poll(): void {
		let results: readonly OperationResult[];
		try {
			results = this.#kvcr.pollCompleted();
		} catch (error) {
			this.#failure = error;
			this.#rejectAll(error);
			return;
		}
		for (const result of results) {
			const waiting = this.#waiting.get(result.handle);
			if (waiting !== undefined) {
				this.#waiting.delete(result.handle);
				waiting.resolve(result);
				continue;
			}
			const [reading] = this.#readings;
			if (reading === undefined) this.#unclaimed.push(result);
			else {
				this.#readings.delete(reading);
				reading.resolve({ done: false, value: result });
			}
		}
		// Nothing comes from a closed instance any more, and whoever waits for it would keep the process alive.
		if (this.#kvcr.closed) this.stop();
		this.#keepAlive();
	}

	#rejectAll(error: unknown): void {
		const all = [...this.#waiting.values(), ...this.#readings];
		this.#waiting.clear();
		this.#readings.clear();
		for (const one of all) one.reject(error);
		this.#keepAlive();
	}

	/** Nothing will come any more, and nothing went wrong. */
	#end(): void {
		for (const reading of this.#readings) reading.resolve(DONE);
		this.#readings.clear();
		this.#rejectAll(new ClosedError("KvcrDriver.stop", "the driver"));
	}

	/** An unreferenced world (sockets and timers of an instance do not keep a process alive) must not end under an await. */
	#keepAlive(): void {
		const needed = this.#waiting.size > 0 || this.#readings.size > 0;
		if (needed && this.#alive === undefined)
			this.#alive = setTimeout(() => {}, FOREVER_MS);
		else if (!needed && this.#alive !== undefined) {
			clearTimeout(this.#alive);
			this.#alive = undefined;
		}
	}
}

/** Checked before anything is started: what is under way when a call throws has nobody to give its claims back. */
function signalOf(
	options: AwaitOptions,
	operation: string,
): AbortSignal | undefined {
	checkObject(operation, "options", options);
	const { signal } = options;
	if (
		signal === undefined ||
		(typeof signal === "object" &&
			typeof signal?.aborted === "boolean" &&
			typeof signal.addEventListener === "function" &&
			typeof signal.removeEventListener === "function")
	)
		return signal;
	throw new InvalidArgumentError(
		operation,
		"options.signal",
		signal,
		"an AbortSignal",
	);
}
