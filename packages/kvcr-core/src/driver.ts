/**
 * Polls an instance whenever it wakes, and offers promises and an async iterator instead: for applications that have no loop of
 * their own. Nothing runs while nothing happens; the process stays alive while somebody awaits.
 */
import type { DeliverDestination, DepositBlock, Kvcr } from "./kvcr.js";
import type { OperationResult } from "./owner/operations.js";
import { ClosedError, type OpHandle } from "./ports/index.js";

/** Longest delay Node's timers take, in milliseconds. */
const FOREVER_MS = 0x7fff_ffff;

interface Waiting {
	resolve(result: OperationResult): void;
	reject(error: unknown): void;
}

/** Options of an awaited call. */
export interface AwaitOptions {
	/** Aborts the operation, best effort; the promise still settles with its result. */
	readonly signal?: AbortSignal;
}

export class KvcrDriver {
	readonly #kvcr: Kvcr;
	readonly #stopListening: () => void;
	readonly #waiting = new Map<OpHandle, Waiting>();
	/** Completions nobody awaits, kept for the iterators. */
	#unclaimed: OperationResult[] = [];
	readonly #iterators = new Set<Waiting>();
	#scheduled = false;
	#failure: unknown;
	#stopped = false;
	#alive: NodeJS.Timeout | undefined;

	/** Starts at once. From now on only the driver may call `pollCompleted`. */
	constructor(kvcr: Kvcr) {
		this.#kvcr = kvcr;
		this.#stopListening = kvcr.onWake(() => this.#schedule());
		this.#schedule();
	}

	/** `Kvcr.fetch`, awaited. @throws what the call throws, or the error that ended progress (as rejection). */
	async fetch(
		keys: Iterable<Uint8Array>,
		options: AwaitOptions & {
			readonly requestId?: string;
			readonly expectedLayout?: readonly string[];
		} = {},
	): Promise<OperationResult> {
		return this.#await(() => this.#kvcr.fetch(keys, options), options.signal);
	}

	/** `Kvcr.deposit`, awaited. */
	async deposit(
		blocks: Iterable<DepositBlock>,
		options: AwaitOptions & { readonly noEvict?: boolean } = {},
	): Promise<OperationResult> {
		return this.#await(
			() => this.#kvcr.deposit(blocks, options),
			options.signal,
		);
	}

	/** `Kvcr.deliver`, awaited. */
	async deliver(
		destinations: Iterable<DeliverDestination>,
		options: AwaitOptions & { readonly requestId?: string } = {},
	): Promise<OperationResult> {
		return this.#await(
			() => this.#kvcr.deliver(destinations, options),
			options.signal,
		);
	}

	/** Completions of operations started on the instance itself. Ends when the driver stops. */
	async *completions(): AsyncGenerator<OperationResult, void, undefined> {
		for (;;) {
			const next = this.#unclaimed.shift();
			if (next !== undefined) yield next;
			else if (this.#failure !== undefined) throw this.#failure;
			else if (this.#stopped) return;
			else {
				const result = await this.#nextUnclaimed();
				if (result === undefined) return;
				yield result;
			}
		}
	}

	/** Stops polling. Promises that are still open are rejected with `ClosedError`; the instance stays usable. */
	stop(): void {
		if (this.#stopped) return;
		this.#stopped = true;
		this.#stopListening();
		this.#poll();
		this.#rejectAll(new ClosedError("KvcrDriver.stop", "the driver"));
	}

	async #nextUnclaimed(): Promise<OperationResult | undefined> {
		try {
			return await new Promise<OperationResult>((resolve, reject) => {
				this.#iterators.add({ resolve, reject });
				this.#keepAlive();
			});
		} catch (error) {
			if (this.#failure === undefined && error instanceof ClosedError)
				return undefined;
			throw error;
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
		const handle = start();
		const abort = (): void => {
			try {
				this.#kvcr.abort(handle);
			} catch {
				// The instance is closing or has failed, which ends the operation as well. Nobody catches what a listener throws.
			}
			this.#schedule();
		};
		const promise = new Promise<OperationResult>((resolve, reject) => {
			this.#waiting.set(handle, { resolve, reject });
			this.#keepAlive();
		});
		if (signal?.aborted) abort();
		else signal?.addEventListener("abort", abort, { once: true });
		this.#schedule();
		return promise.finally(() => signal?.removeEventListener("abort", abort));
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
			const [iterator] = this.#iterators;
			if (iterator === undefined) this.#unclaimed.push(result);
			else {
				this.#iterators.delete(iterator);
				iterator.resolve(result);
			}
		}
		this.#keepAlive();
	}

	#rejectAll(error: unknown): void {
		const all = [...this.#waiting.values(), ...this.#iterators];
		this.#waiting.clear();
		this.#iterators.clear();
		for (const waiting of all) waiting.reject(error);
		this.#keepAlive();
	}

	/** An unreferenced world (sockets and timers of an instance do not keep a process alive) must not end under an await. */
	#keepAlive(): void {
		const needed = this.#waiting.size > 0 || this.#iterators.size > 0;
		if (needed && this.#alive === undefined)
			this.#alive = setTimeout(() => {}, FOREVER_MS);
		else if (!needed && this.#alive !== undefined) {
			clearTimeout(this.#alive);
			this.#alive = undefined;
		}
	}
}
