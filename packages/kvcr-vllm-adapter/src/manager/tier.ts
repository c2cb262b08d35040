/**
 * KVCR as a secondary offloading tier of vLLM: managed host memory behind the engine's primary tier, filled by the engine and
 * by peers. All methods run on the engine's scheduler loop and return at once, apart from `drainJobs` and `shutdown`.
 */
import {
	type Clock,
	ClosedError,
	callOut,
	consoleLogger,
	type DeliverDestination,
	guardedLogger,
	InvalidArgumentError,
	Kvcr,
	type Logger,
	type MemoryRegion,
	NotQuiescentError,
	systemClock,
} from "kvcr-core";
import { VllmKeyAdapter } from "../key-adapter.js";
import { inventoryFeed } from "../reverse-map/index.js";
import { checkKey } from "../reverse-map/packed-key.js";
import { BlocksAtRisk } from "./blocks-at-risk.js";
import type {
	JobResult,
	LookupResult,
	OffloadingEvent,
	OffloadKey,
	ParentManager,
	ReqContext,
	RequestOffloadingContext,
	TransferJob,
} from "./contract.js";
import { type CheckedJob, JobBook } from "./job-book.js";
import { OffloadingEvents } from "./offloading-events.js";
import {
	checkOptions,
	POOL,
	type VllmKvcrTierOptions,
	type VllmKvcrTierStats,
} from "./options.js";
import { PrimaryPins } from "./primary-pins.js";
import { RequestHints } from "./request-hints.js";

/** Longest pause between two looks at jobs that are drained, in milliseconds. */
const DRAIN_PAUSE_MS = 50;

/**
 * vLLM's secondary tier over a {@link Kvcr}. Transfers of a request keep exactly the keys the engine names; the reverse map is
 * asked only for router hashes that peers want resolved.
 *
 * @example
 * const primary = await agent.createRegion({ label: "", elementBytes: rowStride, elementCount: blocks });
 * const tier = await VllmKvcrTier.create({
 *   agent, channel, primary, managedBlocks: 1024,
 *   kvEvents: { enableKvCacheEvents: true, selfDescribingKvEvents: true },
 * });
 * // Each step of the scheduler:
 * for (const { jobId, success } of tier.getFinishedJobs()) engine.jobFinished(jobId, success);
 * tier.serveExternalRequests(engine);
 * publish(tier.takeEvents());
 */
export class VllmKvcrTier {
	/** Name of this tier in the engine's configuration, and the owner its events name. */
	static readonly tierType = "kvcr";

	/** What the engine's blocks are called. Its map is what `decodeFromRouter` answers from. */
	readonly adapter: VllmKeyAdapter;
	readonly #kvcr: Kvcr;
	readonly #primary: MemoryRegion;
	readonly #jobs = new JobBook();
	readonly #atRisk: BlocksAtRisk;
	readonly #pins: PrimaryPins;
	readonly #events: OffloadingEvents;
	readonly #hints: RequestHints;
	readonly #drainTimeoutMs: number;
	readonly #clock: Clock;
	#shutdown: Promise<void> | undefined;

	private constructor(
		kvcr: Kvcr,
		parts: {
			readonly adapter: VllmKeyAdapter;
			readonly atRisk: BlocksAtRisk;
			readonly pins: PrimaryPins;
			readonly events: OffloadingEvents;
			readonly logger: Logger;
		},
		options: VllmKvcrTierOptions,
	) {
		this.#kvcr = kvcr;
		this.adapter = parts.adapter;
		this.#atRisk = parts.atRisk;
		this.#pins = parts.pins;
		this.#events = parts.events;
		this.#primary = options.primary;
		this.#hints = new RequestHints(kvcr, parts.logger);
		this.#clock = options.clock ?? systemClock;
		this.#drainTimeoutMs =
			options.drainTimeoutMs ??
			Math.max(10_000, 2 * (options.abandonTimeoutMs ?? 0));
	}

	/**
	 * Allocates managed memory, starts the channel and begins to answer peers. The tier owns agent and channel from now on.
	 * @throws InvalidArgumentError before anything is started; what `Kvcr.create` throws.
	 */
	static async create(options: VllmKvcrTierOptions): Promise<VllmKvcrTier> {
		checkOptions(options);
		const { primary, managedBlocks, kvEvents, map, ...settings } = options;
		const logger = guardedLogger(options.logger ?? consoleLogger);
		const enabled = kvEvents.enableKvCacheEvents;
		const adapter = new VllmKeyAdapter({
			events: enabled,
			...(map !== undefined && { map }),
		});
		const events = new OffloadingEvents();
		const atRisk = new BlocksAtRisk();
		const pins = new PrimaryPins(primary, logger);
		const feed = adapter.map && inventoryFeed(adapter.map);
		const kvcr = await Kvcr.create({
			...settings,
			adapter,
			pools: [
				{
					name: POOL,
					slotBytes: primary.elementBytes,
					slotCount: managedBlocks,
				},
			],
			frameworkRegions: [primary],
			pins,
			// Without events nobody would ever take them.
			...(feed !== undefined && {
				inventorySink: (event) => {
					// What is lost to the map is not lost to the engine.
					events.add(event);
					feed(event);
				},
			}),
			onTransferReport: (report) => {
				atRisk.take(report);
				const { onTransferReport } = options;
				if (onTransferReport !== undefined)
					callOut(() => onTransferReport(report));
				else if (report.state === "uncertain")
					logger.error({ error: report }, report.message);
				else logger.info({ error: report }, report.message);
			},
		});
		return new VllmKvcrTier(
			kvcr,
			{ adapter, atRisk, pins, events, logger },
			options,
		);
	}

	/** What to advertise to routers: `["router_hint"]`, nothing when KV cache events are disabled. */
	get routerCapabilities(): readonly string[] {
		return this.adapter.routerCapabilities;
	}

	/** Control endpoint by which hints name this engine as a source; undefined without a channel. */
	get endpoint(): string | undefined {
		return this.#kvcr.endpoint;
	}

	/** Names this running instance, also in messages on core's diagnostics channels. */
	get incarnation(): string {
		return this.#kvcr.incarnation;
	}

	/**
	 * Whether a block can be loaded: from managed memory, or from the source that the request's hint names. `RETRY` while it is
	 * being filled. Starts nothing.
	 * @throws InvalidArgumentError for a key that is not bytes or a request without ID; ClosedError after `shutdown`.
	 */
	lookup(key: OffloadKey, context: ReqContext): LookupResult {
		this.#assertOpen("lookup");
		checkKey(key, "VllmKvcrTier.lookup", "key");
		checkContext("lookup", context);
		const [known] = this.#kvcr.query([key], { requestId: context.reqId });
		switch (known?.status) {
			case "HIT":
			case "FETCHABLE":
				return "HIT";
			case "FETCHING":
				return "RETRY";
			default:
				return "MISS";
		}
	}

	/**
	 * Copies blocks into blocks of the primary tier. The outcome comes from {@link getFinishedJobs}, for each block in time: what
	 * fails, fails alone.
	 * @throws InvalidArgumentError before anything changes, ClosedError after `shutdown`.
	 */
	submitLoad(job: TransferJob): void {
		const checked = this.#accept("submitLoad", job);
		if (checked === undefined) return;
		const destinations: DeliverDestination[] = checked.keys.map(
			(key, index) => ({
				key,
				pieces: [this.#piece(checked.blockIds[index] as number)],
			}),
		);
		const { reqId } = job.reqContext;
		this.#jobs.start(
			"load",
			checked,
			() => this.#kvcr.deliver(destinations, { requestId: reqId }),
			this.#atRisk.has,
		);
	}

	/**
	 * Copies blocks of the primary tier into managed memory, making room where needed. Blocks that are here already count as
	 * stored.
	 * @throws InvalidArgumentError before anything changes, ClosedError after `shutdown`.
	 */
	submitStore(job: TransferJob): void {
		const checked = this.#accept("submitStore", job);
		if (checked === undefined) return;
		const sources = checked.keys.map((key, index) => ({
			key,
			pieces: [this.#piece(checked.blockIds[index] as number)],
		}));
		this.#jobs.start(
			"store",
			checked,
			() => this.#kvcr.deposit(sources),
			this.#atRisk.has,
		);
	}

	/**
	 * Does what is due, and hands out every job that has ended since the last call: those submitted here, and store jobs that
	 * were made for peers. Each job is reported once. A load that failed while a peer may still write to its blocks is
	 * reported only when that has ended, because the engine reuses the blocks of reported jobs. Works after `shutdown` too.
	 * @throws ProgressFailedError once the instance has failed for good.
	 */
	getFinishedJobs(): JobResult[] {
		this.#collect();
		return [...this.#jobs.take(), ...this.#pins.takeResults()];
	}

	/** True while the engine must go on calling {@link getFinishedJobs}, also without requests: peers may ask at any time. */
	hasPendingWork(): boolean {
		return this.#shutdown === undefined;
	}

	/**
	 * Takes the hint of a new request: `kvHints`, otherwise `kvTransferParams.kv_hint`, as JSON text, its bytes, or an object
	 * with exact integers. A malformed hint is counted and logged, and the request goes on.
	 * @throws InvalidArgumentError for a request without ID; ClosedError after `shutdown`.
	 */
	onNewRequest(context: ReqContext): RequestOffloadingContext {
		this.#assertOpen("onNewRequest");
		checkContext("onNewRequest", context);
		this.#hints.submit(context);
		return { policy: "chunk_level" };
	}

	/**
	 * Ends the advice of a request; what it started independently, and jobs under way, go on. Unknown or finished requests are
	 * fine.
	 * @throws InvalidArgumentError for a request without ID; ClosedError after `shutdown`.
	 */
	onRequestFinished(context: ReqContext): void {
		this.#assertOpen("onRequestFinished");
		checkContext("onRequestFinished", context);
		this.#kvcr.discardHint(context.reqId);
	}

	/**
	 * Asks the engine for the blocks peers want to read from the primary tier. The manager is used during this call only. Does
	 * nothing after `shutdown`.
	 */
	serveExternalRequests(parent: ParentManager): void {
		if (this.#shutdown === undefined) this.#pins.serve(parent);
	}

	/** Blocks that came to or left managed memory since the last call, in order. Nothing when KV cache events are disabled. */
	takeEvents(): OffloadingEvent[] {
		return this.#events.take();
	}

	/**
	 * Waits until no job runs and no peer reads from the primary tier. The results stay for {@link getFinishedJobs}.
	 * @throws NotQuiescentError (as rejection) when that takes longer than `drainTimeoutMs`: then the primary tier's memory must
	 * not be given back yet.
	 */
	async drainJobs(): Promise<void> {
		const until = this.#clock.now() + this.#drainTimeoutMs;
		for (;;) {
			this.#collect();
			const { running, withheld } = this.#jobs;
			const { active } = this.#pins;
			if (running + withheld + active === 0) return;
			const left = until - this.#clock.now();
			if (left <= 0)
				throw new NotQuiescentError(
					"VllmKvcrTier.drainJobs",
					`${running} jobs run, ${withheld} have blocks that may still be written, ${active} pins are held by peers`,
				);
			await this.#wakeUp(Math.min(left, DRAIN_PAUSE_MS));
		}
	}

	/** A snapshot, for operators and tests. */
	stats(): VllmKvcrTierStats {
		const { running, withheld, foreign } = this.#jobs;
		const { pending, active, failed } = this.#pins;
		const { submitted, malformed } = this.#hints;
		return {
			jobs: { running, withheld },
			pins: { pending, active, failed },
			hints: { submitted, malformed },
			foreignCompletions: foreign,
			kvcr: this.#kvcr.stats(),
		};
	}

	/**
	 * Ends the tier: no new work, jobs under way are drained, then instance, channel and agent are closed. Whatever is still open
	 * fails; {@link getFinishedJobs} and {@link takeEvents} hand out the rest. Shutting down twice gives the same result.
	 * @throws NotQuiescentError (as rejection) when something may still touch the primary tier's memory: keep it mapped.
	 */
	shutdown(): Promise<void> {
		this.#shutdown ??= this.#end();
		return this.#shutdown;
	}

	async #end(): Promise<void> {
		// The call may come from inside another one, such as that which asks the engine for pins: it is to end first.
		await Promise.resolve();
		try {
			await this.drainJobs();
		} catch {
			// Closing ends what runs, proves that memory is safe or says that it is not, and comes through after a failure too.
		}
		try {
			await this.#kvcr.close();
		} catch (error) {
			if (error instanceof NotQuiescentError) this.#atRisk.giveUp();
			throw error;
		} finally {
			this.#pins.close();
		}
	}

	#accept(call: string, job: TransferJob): CheckedJob | undefined {
		this.#assertOpen(call);
		const operation = `VllmKvcrTier.${call}`;
		const checked = this.#jobs.check(job, this.#primary, operation);
		checkContext(call, job.reqContext, "job.reqContext");
		if (checked.keys.length > 0) return checked;
		this.#jobs.finish({ jobId: checked.jobId, success: true });
		return undefined;
	}

	#piece(element: number) {
		return { label: POOL, region: this.#primary, element };
	}

	#collect(): void {
		const { has } = this.#atRisk;
		for (const result of this.#kvcr.pollCompleted())
			this.#jobs.completed(result, has);
		this.#jobs.settle(has);
	}

	/** Waits until the instance has something to say, at most `ms`. Keeps the process alive meanwhile. */
	#wakeUp(ms: number): Promise<void> {
		return new Promise((resolve) => {
			const done = (): void => {
				timer.cancel();
				clearTimeout(alive);
				stopListening();
				resolve();
			};
			const alive = setTimeout(() => {}, 0x7fff_ffff);
			const timer = this.#clock.schedule(ms, done);
			const stopListening = this.#kvcr.onWake(done);
		});
	}

	#assertOpen(call: string): void {
		if (this.#shutdown !== undefined)
			throw new ClosedError(`VllmKvcrTier.${call}`, "this tier");
	}
}

function checkContext(
	call: string,
	context: ReqContext,
	argument = "context",
): void {
	const reqId: unknown = context?.reqId;
	if (typeof reqId !== "string" || reqId === "")
		throw new InvalidArgumentError(
			`VllmKvcrTier.${call}`,
			`${argument}.reqId`,
			reqId,
			"a non-empty string",
		);
}
