/** The facade: one instance in one worker. It checks arguments and hands them to the parts that do the work. */
import { closeAll } from "./closing.js";
import {
	parseHintEnvelope,
	requestAdviceId,
	startsPlacement,
} from "./hints/index.js";
import { BlockHasher } from "./integrity/hasher.js";
import { type KvcrOptions, readSettings, type Settings } from "./options.js";
import {
	adviceOf,
	checkList,
	checkRequestId,
	readDeliveries,
	readDeposits,
} from "./owner/arguments.js";
import type {
	DeliverDestination,
	DepositBlock,
	KvcrStats,
	QueryResult,
	ReleaseResult,
} from "./owner/calls.js";
import { DeliverWork } from "./owner/deliver-work.js";
import { DepositWork } from "./owner/deposit-work.js";
import { FetchOperation } from "./owner/fetch-operation.js";
import { FetchWork } from "./owner/fetch-work.js";
import { keyRefs, listedKeyRef } from "./owner/key-ref.js";
import type { OperationResult } from "./owner/operations.js";
import {
	ClosedError,
	checkObject,
	type Incarnation,
	InvalidArgumentError,
	type OpHandle,
	type ReleaseHandle,
	StartupError,
	type Timer,
} from "./ports/index.js";
import type { StateLockHold } from "./progress/state-lock.js";
import { type PoolMemory, type Wiring, wire } from "./wiring.js";

/** Results of queries, shared by everybody. */
const HIT: QueryResult = Object.freeze({ status: "HIT", tier: "DRAM" });
const FETCHING: QueryResult = Object.freeze({
	status: "FETCHING",
	tier: "DRAM",
});
const FETCHABLE: QueryResult = Object.freeze({
	status: "FETCHABLE",
	tier: "REMOTE_G2",
});
const MISS: QueryResult = Object.freeze({ status: "MISS" });

/** Set by the class itself: the only way to make an instance from outside of it. */
let assemble: (
	parts: Wiring,
	settings: Settings,
	defaultLayout: readonly string[] | undefined,
) => Kvcr;

/** KV Cache Runner: owns managed host memory, acts on hints, serves peers. Made by {@link Kvcr.create}. */
export class Kvcr {
	readonly #parts: Wiring;
	readonly #settings: Settings;
	readonly #defaultLayout: readonly string[] | undefined;
	#closing: Promise<void> | undefined;
	#closed = false;
	/** Armed while a pin waits for the framework. */
	#pinTimer: Timer | undefined;

	private constructor(
		parts: Wiring,
		settings: Settings,
		defaultLayout: readonly string[] | undefined,
	) {
		this.#parts = parts;
		this.#settings = settings;
		this.#defaultLayout = defaultLayout;
	}

	/**
	 * Allocates the pools, starts the channel and begins to answer peers.
	 * @throws InvalidArgumentError before anything is started; what the agent or the channel throw, after closing both;
	 * StartupError when closing them failed too: then keep every buffer mapped until the process ends.
	 */
	static create(options: KvcrOptions): Promise<Kvcr> {
		return createWired(options, wire);
	}

	static {
		assemble = (parts, settings, layout) => new Kvcr(parts, settings, layout);
	}

	/** Identity of this running instance (wire field `sender_incarnation`). */
	get incarnation(): Incarnation {
		return this.#parts.incarnation;
	}

	/** Endpoint peers reach this instance at; undefined without a channel. */
	get endpoint(): string | undefined {
		return this.#parts.channel.endpoint;
	}

	/** True once {@link close} has come to its end, whichever way: nothing more will happen. */
	get closed(): boolean {
		return this.#closed;
	}

	/**
	 * Acts on a hint envelope: JSON text, its bytes, or an object. With a request ID, actions of scope `request` are advice
	 * for later calls of that request; all others start placement at once and outlive the request.
	 * @throws InvalidHintError naming the field; nothing of the envelope takes effect then.
	 */
	submitHint(hint: string | Uint8Array | object, requestId?: string): void {
		this.#enter("Kvcr.submitHint");
		if (requestId !== undefined) checkRequestId(requestId, "Kvcr.submitHint");
		const envelope = parseHintEnvelope(hint, { requestId }, "Kvcr.submitHint");
		const { telemetry, advice, independent, sources } = this.#parts;
		for (const mismatch of envelope.versionMismatches) {
			telemetry.warnOnce(
				`hint-${mismatch.kind}`,
				mismatch,
				"hint has another version than the one understood",
			);
		}
		for (const action of envelope.actions) {
			const independently = startsPlacement(action, requestId);
			telemetry.count("kvcr_hints_total", {
				scope: independently ? "independent" : "request",
				mode: action.mode,
			});
			if (action.source !== undefined && this.#settings.eagerConnect)
				sources.connect(action.source);
			if (independently) independent.submit(action);
			else if (requestId !== undefined) advice.record(requestId, action);
		}
		this.#leave();
	}

	/** Ends the advice of a request. Independent placement that it carried goes on. */
	discardHint(requestId: string): void {
		this.#enter("Kvcr.discardHint");
		checkRequestId(requestId, "Kvcr.discardHint");
		this.#parts.advice.discard(requestAdviceId(requestId));
		this.#leave();
	}

	/**
	 * What is known about blocks, one result per key, in order. Starts, allocates and pins nothing.
	 * @throws InvalidArgumentError for a key that is not bytes.
	 */
	query(
		keys: Iterable<Uint8Array>,
		options: {
			/** Request whose advice is taken into account. Default: none. */
			readonly requestId?: string;
		} = {},
	): QueryResult[] {
		this.#enter("Kvcr.query");
		checkObject("Kvcr.query", "options", options);
		const adviceId = adviceOf(options.requestId, "Kvcr.query");
		checkList(keys, "Kvcr.query", "keys", "an iterable of block keys");
		const { cache, selector } = this.#parts;
		const results: QueryResult[] = [];
		let index = 0;
		for (const key of keys) {
			const ref = listedKeyRef(key, "Kvcr.query", "keys", index);
			index += 1;
			const state = cache?.get(ref.text)?.state;
			if (state === "READY") results.push(HIT);
			else if (state === "FILLING") results.push(FETCHING);
			else if (selector.choose(adviceId, ref) !== undefined)
				results.push(FETCHABLE);
			else results.push(MISS);
		}
		return results;
	}

	/**
	 * Copies blocks into managed memory. Completes with `SUCCESS`, `DROPPED` (the policy declined) or `FAILED` per key; with
	 * `noEvict` every success carries a release handle, and the block stays until it is released. Of equal keys the
	 * first counts.
	 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError before anything changes.
	 */
	deposit(
		blocks: Iterable<DepositBlock>,
		options: {
			/** Whether every success carries a release handle. Default false. */
			readonly noEvict?: boolean;
		} = {},
	): OpHandle {
		this.#enter("Kvcr.deposit");
		checkObject("Kvcr.deposit", "options", options);
		const { noEvict = false } = options;
		if (typeof noEvict !== "boolean")
			throw new InvalidArgumentError(
				"Kvcr.deposit",
				"noEvict",
				noEvict,
				"a boolean",
			);
		const { refs, items } = readDeposits(blocks, this.#parts.memory);
		const { operations, fetch, copier, clock } = this.#parts;
		const operation = operations.begin("deposit", refs);
		if (fetch === undefined) {
			for (const index of refs.keys())
				operations.settle(operation, index, {
					status: "FAILED",
					reason: "too_large",
				});
		} else {
			const deadline = clock.now() + this.#settings.operationTimeoutMs;
			const work = new DepositWork(
				{ ...fetch, copier, operations },
				operation,
				items,
				noEvict,
				deadline,
			);
			operation.work = work;
			this.#begin(operation, () => work.start());
		}
		this.#leave();
		return operation.handle;
	}

	/**
	 * Makes blocks resident and keeps them claimed: success carries the pieces and a release handle. What is missing comes from
	 * the source that advice of the request names. Equal keys collapse.
	 * @param options.expectedLayout Labels the blocks must have; required to pull where there are several pools.
	 * @throws InvalidArgumentError before anything changes.
	 */
	fetch(
		keys: Iterable<Uint8Array>,
		options: {
			/** Request whose advice applies. Default: none. */
			readonly requestId?: string;
			/** Labels the blocks must have. Default: the one label of the only pool; with several pools there is none. */
			readonly expectedLayout?: readonly string[];
		} = {},
	): OpHandle {
		this.#enter("Kvcr.fetch");
		checkObject("Kvcr.fetch", "options", options);
		const refs = keyRefs(keys, "Kvcr.fetch", "keys");
		const { expectedLayout, requestId } = options;
		const adviceId = adviceOf(requestId, "Kvcr.fetch");
		const { operations, fetch, clock, cache, memory } = this.#parts;
		if (expectedLayout !== undefined)
			memory.checkLayout(expectedLayout, "Kvcr.fetch", "expectedLayout");
		// The caller may use its list again.
		const layout = expectedLayout && [...expectedLayout];
		const operation = operations.begin("fetch", refs);
		if (fetch === undefined || cache === undefined) {
			for (const index of refs.keys())
				operations.settle(operation, index, {
					status: "FAILED",
					reason: "too_large",
				});
		} else {
			const deadline = clock.now() + this.#settings.operationTimeoutMs;
			const sink = new FetchOperation(cache, operations, operation);
			const order = {
				keys: refs,
				layout,
				defaultLayout: this.#defaultLayout,
				adviceId,
				deadline,
			};
			const work = new FetchWork(fetch, order, sink);
			sink.work = work;
			operation.work = sink;
			this.#begin(operation, () => work.start());
		}
		this.#leave();
		return operation.handle;
	}

	/**
	 * Copies blocks into framework memory, from managed memory or from the source that advice of the request names. The
	 * destination memory belongs to the operation until it completes; reason `uncertain` means even longer, until a
	 * report says `quiesced`. Of equal keys the first counts. A `ProgressFailedError` in the middle of a large delivery leaves the
	 * writes already asked for running: their memory is safe only after `close`.
	 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError before anything changes.
	 */
	deliver(
		destinations: Iterable<DeliverDestination>,
		options: {
			/** Request whose advice applies. Default: none. */
			readonly requestId?: string;
		} = {},
	): OpHandle {
		this.#enter("Kvcr.deliver");
		checkObject("Kvcr.deliver", "options", options);
		const adviceId = adviceOf(options.requestId, "Kvcr.deliver");
		const { memory, operations, clock } = this.#parts;
		const { refs, items } = readDeliveries(destinations, memory);
		const operation = operations.begin("deliver", refs);
		const deadline = clock.now() + this.#settings.operationTimeoutMs;
		const work = new DeliverWork(
			{ ...this.#parts, fills: this.#parts.fetch?.fills },
			operation,
			items,
			adviceId,
			deadline,
		);
		operation.work = work;
		this.#begin(operation, () => work.start());
		this.#leave();
		return operation.handle;
	}

	/** Ends claims. One result per handle, in order; releasing twice is no error. */
	release(handles: Iterable<ReleaseHandle>): ReleaseResult[] {
		this.#enter("Kvcr.release");
		checkList(handles, "Kvcr.release", "handles", "an iterable of handles");
		const list = [...handles];
		for (const [index, handle] of list.entries()) {
			if (typeof handle !== "bigint")
				throw new InvalidArgumentError(
					"Kvcr.release",
					`handles[${index}]`,
					handle,
					"a bigint",
				);
		}
		const { cache } = this.#parts;
		const results = list.map((handle) => ({
			handle,
			released: cache?.releaseHandle(handle) ?? false,
		}));
		this.#leave();
		return results;
	}

	/**
	 * Gives up an operation, or some of its keys. Best effort: work that others share goes on, and a delivery under way ends
	 * only when its memory is safe. Entries given up end as `FAILED` with reason `aborted`.
	 * @returns false when the operation is unknown or complete.
	 */
	abort(handle: OpHandle, keys?: Iterable<Uint8Array>): boolean {
		this.#enter("Kvcr.abort");
		if (typeof handle !== "bigint")
			throw new InvalidArgumentError(
				"Kvcr.abort",
				"handle",
				handle,
				"a bigint",
			);
		const wanted =
			keys === undefined
				? undefined
				: new Set(keyRefs(keys, "Kvcr.abort", "keys").map((ref) => ref.text));
		const { operations, owner, cache } = this.#parts;
		const operation = operations.get(handle);
		const work = operation?.work;
		if (operation === undefined || work === undefined) return false;
		const abort = (): void => {
			for (const [index, ref] of operation.keys.entries()) {
				if (
					operation.results[index] === undefined &&
					(wanted === undefined || wanted.has(ref.text))
				)
					work.abortEntry(index);
			}
		};
		// In the middle of a policy's decision nothing may change.
		if (cache?.deciding) owner.enqueue(abort);
		else abort();
		this.#leave();
		return true;
	}

	/**
	 * Does what is due on the owner's side (callbacks, inventory, pins) and hands out completed operations, each once.
	 * Works after `close` too, for the operations that closing ended.
	 * @throws ProgressFailedError once progress has failed for good.
	 */
	pollCompleted(): readonly OperationResult[] {
		const { health, owner, pins, clock, operations, cache } = this.#parts;
		if (this.#closing === undefined) {
			health.check();
			if (cache?.deciding) return [];
			owner.drain();
			pins?.poll();
			this.#leave();
			// Only the framework can move these on, and it need not be able to wake us.
			if (pins?.waiting)
				this.#pinTimer ??= clock.schedule(
					this.#settings.metadataRetryIntervalMs,
					() => {
						this.#pinTimer = undefined;
						owner.wake();
					},
				);
		}
		return operations.takeCompleted();
	}

	/**
	 * Holds the state lock: until it is released, progress changes nothing that the owner could see. Progress does not wait for
	 * it; hash resolution does not need it.
	 */
	lockState(): StateLockHold {
		return this.#parts.lock.hold();
	}

	/**
	 * Calls a listener when a poll would find something. It must not call back into the instance synchronously. The returned
	 * function removes it.
	 * @throws InvalidArgumentError for anything but a function.
	 */
	onWake(listener: () => void): () => void {
		if (typeof listener !== "function")
			throw new InvalidArgumentError(
				"Kvcr.onWake",
				"listener",
				listener,
				"a function",
			);
		return this.#parts.owner.onWake(listener);
	}

	/** A snapshot of counters and of everything that is held. */
	stats(): KvcrStats {
		const {
			telemetry,
			cache,
			operations,
			pulls,
			serve,
			pins,
			advice,
			routes,
			sources,
			independent,
		} = this.#parts;
		return {
			counters: telemetry.counters(),
			cache: cache?.stats(),
			operations: {
				open: operations.size,
				uncollected: operations.uncollected,
			},
			transfers: { pulls: pulls.countByState(), writes: serve.size },
			pins: pins?.counts ?? { held: 0, pending: 0, releasing: 0 },
			advice: advice.size,
			peers: { targets: routes.size, sources: sources.size },
			hintsPending: independent.openHashes,
		};
	}

	/**
	 * Ends the instance, its channel and its agent, in bounded time. Open operations end as `FAILED` with reason `closed`.
	 * Closing twice gives the same result.
	 * @throws NotQuiescentError (as rejection) when something native may still touch memory: it stays mapped.
	 */
	close(): Promise<void> {
		if (this.#closing === undefined) {
			this.#pinTimer?.cancel();
			this.#closing = closeAll(this.#parts, this.#settings).finally(() => {
				this.#closed = true;
				this.#parts.owner.wake();
			});
		}
		return this.#closing;
	}

	#enter(operation: string): void {
		if (this.#closing !== undefined)
			throw new ClosedError(operation, "this Kvcr");
		this.#parts.health.check();
		this.#settle();
	}

	#leave(): void {
		this.#settle();
	}

	/** Not in the middle of a policy's decision: no task could change anything then, and none is tried twice. */
	#settle(): void {
		const { owner, cache } = this.#parts;
		if (cache?.deciding) return;
		owner.drain();
		cache?.settle();
	}

	/**
	 * Runs the start of an operation; if that throws, nothing of the operation remains. The arguments were read by now, which
	 * may have run code of the caller: that may have closed the instance.
	 */
	#begin(
		operation: Parameters<Wiring["operations"]["withdraw"]>[0],
		start: () => void,
	): void {
		try {
			if (this.#closing !== undefined)
				throw new ClosedError(`Kvcr.${operation.kind}`, "this Kvcr");
			start();
		} catch (error) {
			this.#parts.operations.withdraw(operation);
			// Entries that ended before hold claims nobody will ever be told of.
			for (const result of operation.results)
				if (result?.releaseHandle !== undefined)
					this.#parts.cache?.releaseHandle(result.releaseHandle);
			throw error;
		}
	}
}

/**
 * What {@link Kvcr.create} does, with parts put together by `wireParts`: a test that watches or replaces parts gets hold of
 * them there.
 * @internal
 */
export async function createWired(
	options: KvcrOptions,
	wireParts: typeof wire,
): Promise<Kvcr> {
	const settings = readSettings(options);
	const { agent, channel } = options;
	try {
		const pools: PoolMemory[] = [];
		for (const { name, slotBytes, slotCount } of options.pools) {
			if (slotCount === 0) continue;
			const region = await agent.createRegion({
				label: name,
				elementBytes: slotBytes,
				elementCount: slotCount,
			});
			pools.push({ name, region });
		}
		const hasher =
			settings.integrity === "verify" ? await BlockHasher.load() : undefined;
		const parts = wireParts(options, settings, pools, undefined, hasher);
		parts.pump.start();
		await parts.channel.start((message) => parts.inbox.receive(message));
		const only = options.pools.length === 1 ? options.pools[0] : undefined;
		return assemble(parts, settings, only && [only.name]);
	} catch (error) {
		try {
			await channel?.close();
			await agent.close();
		} catch (closeError) {
			throw new StartupError(
				"Kvcr.create: start-up failed and native work could not be stopped; keep all buffers mapped",
				{
					cause: new AggregateError([error, closeError]),
				},
			);
		}
		throw error;
	}
}
