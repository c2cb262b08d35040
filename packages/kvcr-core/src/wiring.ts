/** Puts the parts of one instance together. Decides nothing at run time. */

import { randomBytes } from "node:crypto";
import { ManagedCache, poolOfLabel } from "./cache/index.js";
import { PinLedger } from "./framework/pins.js";
import { IndependentHintHandler } from "./hints/independent.js";
import { AdviceStore } from "./hints/index.js";
import { IntegrityChecker } from "./integrity/checker.js";
import type { BlockHasher } from "./integrity/hasher.js";
import type { KvcrOptions, Settings } from "./options.js";
import { Admitter } from "./owner/admitter.js";
import type { FetchParts } from "./owner/fetch-work.js";
import { FillTable } from "./owner/fills.js";
import { FrameworkMemory } from "./owner/framework-memory.js";
import { LocalCopier } from "./owner/local-copier.js";
import { OperationTable } from "./owner/operations.js";
import { placeGroup } from "./owner/placement.js";
import { SourceSelector } from "./owner/source-selector.js";
import { callOut } from "./ports/foreign.js";
import {
	type Clock,
	consoleLogger,
	type Incarnation,
	keyText,
	type MemoryRegion,
	systemClock,
} from "./ports/index.js";
import { AgentPump } from "./progress/agent-pump.js";
import { ControlInbox } from "./progress/control-inbox.js";
import { FairInbox } from "./progress/fair-inbox.js";
import { Health, ProgressFailedError } from "./progress/health.js";
import { HotWait } from "./progress/hot-wait.js";
import { noChannel } from "./progress/no-channel.js";
import { OwnerQueue } from "./progress/owner-queue.js";
import { StallMonitor } from "./progress/stall-monitor.js";
import { StateLock } from "./progress/state-lock.js";
import type { TargetRegions } from "./protocol/index.js";
import { decodeNotification } from "./protocol/index.js";
import { HashResolver, HashResponder } from "./resolution/index.js";
import { Telemetry } from "./telemetry/telemetry.js";
import { ControlLink } from "./transfer/control-link.js";
import { FenceTable } from "./transfer/fences.js";
import { HandleSequence } from "./transfer/handles.js";
import { PullEngine } from "./transfer/pull-engine.js";
import type { TransferError } from "./transfer/reports.js";
import { RouteTable } from "./transfer/routes.js";
import { ServeEngine } from "./transfer/serve-engine.js";
import { ServeReplies } from "./transfer/serve-replies.js";
import { SourceMemory } from "./transfer/source-memory.js";
import { SourceDirectory } from "./transfer/sources.js";

/** How long an incoming connection is expected after an introduction, in milliseconds. */
const CONNECT_WINDOW_MS = 250;

/** Peers whose fences are kept at least: they are small, and what is forgotten of them is no longer kept from being written. */
const MIN_FENCED_PEERS = 1024;

/** A managed pool with its memory. */
export interface PoolMemory {
	readonly name: string;
	readonly region: MemoryRegion;
}

/** The parts of one instance. */
export type Wiring = ReturnType<typeof wire>;

/** What tells one instance from every other, and its operations from those of every other. */
export interface Identity {
	readonly incarnation: Incarnation;
	/** Start of the operation handles; undefined: the wall clock. */
	readonly firstHandle: bigint | undefined;
}

/** A fresh identity: an incarnation of 32 random hexadecimal digits. */
export function newIdentity(): Identity {
	const incarnation = randomBytes(16).toString("hex") as Incarnation;
	return { incarnation, firstHandle: undefined };
}

/**
 * Builds every part around the agent, the channel and the memory. Starts nothing but counting. With a hasher, blocks are
 * checked end to end.
 * @throws InvalidArgumentError for framework regions or pools that do not fit together.
 */
export function wire(
	options: KvcrOptions,
	settings: Settings,
	pools: readonly PoolMemory[],
	{ incarnation, firstHandle }: Identity = newIdentity(),
	hasher?: BlockHasher,
) {
	const { agent, adapter } = options;
	const channel = options.channel ?? noChannel;
	const telemetry = new Telemetry(
		incarnation,
		options.logger ?? consoleLogger,
		options.stats,
	);
	const owner = new OwnerQueue((error) =>
		telemetry.warnOnce("wake-listener", { error }, "a wake listener failed"),
	);
	const lock = new StateLock(owner);
	const health = new Health((failure) => {
		telemetry.warnOnce(
			"progress-failed",
			{ error: failure },
			"progress failed",
		);
		owner.wake();
	});
	const clock: Clock = health.guardClock(options.clock ?? systemClock);
	const handles = new HandleSequence(firstHandle);
	const operations = new OperationTable(handles, () => owner.wake());
	const slotBytes = new Map(
		options.pools.map((pool) => [pool.name, pool.slotBytes]),
	);
	const memory = new FrameworkMemory(
		options.frameworkRegions ?? [],
		slotBytes,
		agent.name,
	);
	const cache =
		pools.length === 0
			? undefined
			: new ManagedCache({
					pools,
					clock,
					logger: telemetry.logger,
					policy: options.policy,
					inventorySink: options.inventorySink,
					inventoryReportIntervalMs: options.inventoryReportIntervalMs,
					capacityListener: options.capacityListener,
					capacityLowWatermarkPercent: options.capacityLowWatermarkPercent,
					onOwnerWork: () => owner.wake(),
				});
	const pins =
		options.pins &&
		new PinLedger(options.pins, telemetry, (pieces) => memory.accepts(pieces));
	options.pins?.attach?.(() => owner.wake());

	const expectTraffic = () => health.require(() => agent.expectTraffic());
	const report = (error: TransferError) => {
		telemetry.resilience(error);
		if (options.onTransferReport !== undefined)
			callOut(
				() => options.onTransferReport?.(error),
				(cause) =>
					telemetry.warnOnce(
						"transfer-report",
						{ error: cause },
						"the listener for transfer reports failed",
					),
			);
		else if (error.state === "uncertain")
			telemetry.logger.error({ error }, error.message);
		else telemetry.logger.info({ error }, error.message);
	};
	const hotWait: HotWait = new HotWait({
		windowMs: settings.hotWaitMs,
		waiting: (): boolean => resolver.inFlight > 0 || pulls.size > 0,
	});
	const link = new ControlLink(
		channel,
		agent.name,
		incarnation,
		telemetry,
		hotWait,
	);
	const stall = new StallMonitor(
		clock,
		settings.operationTimeoutMs,
		(gapMs) => {
			telemetry.count("kvcr_stalls_total");
			telemetry.logger.warn(
				{ gapMs },
				"this process was stalled; writes asked for meanwhile are refused",
			);
		},
	);
	const regions: TargetRegions = {
		framework: new Map(
			[...memory.regions].map(([label, region]) => [label, region.descriptor]),
		),
		managed: new Map(
			pools.map(({ name, region }) => [name, region.descriptor]),
		),
	};
	const sources = new SourceDirectory({
		clock,
		link,
		localPeer: () => ({
			metadata: health.require(() => agent.localMetadata()),
			regions,
		}),
		expectTraffic,
		retryIntervalMs: settings.metadataRetryIntervalMs,
		connectWindowMs: CONNECT_WINDOW_MS,
		maxSources: settings.maxPeers,
		onIncarnation: (endpoint, seen) => {
			inbox.met(seen);
			pulls.sourceReplaced(endpoint, seen);
		},
	});
	const pulls = new PullEngine({
		clock,
		link,
		sources,
		handles,
		owner,
		telemetry,
		expectTraffic,
		operationTimeoutMs: settings.operationTimeoutMs,
		abandonTimeoutMs: settings.abandonTimeoutMs,
		report,
		collect: () => pump.pump(),
	});
	const routes = new RouteTable(agent, clock, {
		maxRoutes: settings.maxPeers,
		maxMetadataBytes: settings.maxMetadataBytes,
		idleMs: settings.idlePeerMs,
		onLoaded: (seen) => inbox.met(seen),
	});
	const serve = new ServeEngine({
		agent,
		clock,
		link,
		routes,
		fences: new FenceTable(Math.max(settings.maxPeers, MIN_FENCED_PEERS)),
		replies: new ServeReplies(agent, link, routes, telemetry),
		memory: new SourceMemory({ cache, pins, lock, owner, telemetry }),
		lock,
		owner,
		stall,
		telemetry,
		incarnation,
		exclusiveEndpoint:
			options.exclusiveEndpoint ?? channel.exclusiveEndpoint ?? false,
		operationTimeoutMs: settings.operationTimeoutMs,
		abandonTimeoutMs: settings.abandonTimeoutMs,
		maxWritesPerPeer: settings.maxWritesPerPeer,
		report,
	});

	const advice = new AdviceStore();
	const selector = new SourceSelector(advice, adapter, telemetry);
	const copier = new LocalCopier(clock, (task) => owner.enqueue(task));
	const integrity =
		cache &&
		hasher &&
		new IntegrityChecker({
			clock,
			cache,
			hasher,
			toOwner: (task) => owner.enqueue(task),
			count: (result) =>
				telemetry.count("kvcr_integrity_checks_total", { result }),
		});
	const fills =
		cache && new FillTable(cache, (residency) => integrity?.keep(residency));
	const fetch: FetchParts | undefined = cache &&
		fills && {
			cache,
			integrity,
			fills,
			admitter: new Admitter(cache, fills),
			pulls,
			selector,
			advice,
			agentName: agent.name,
		};
	const responder = new HashResponder({
		adapter,
		incarnation,
		residentLayout: (key) => {
			const residency = cache?.get(keyText(key));
			if (cache === undefined || residency?.state !== "READY") return undefined;
			return {
				labels: residency.layout,
				sizes: cache.pieceSizes(residency.layout) ?? [],
				checksum: integrity?.checksumOf(residency),
			};
		},
		onLookupError: (error) =>
			telemetry.warnOnce(
				"adapter-lookup",
				{ error },
				"key adapter failed to look a hash up",
			),
	});
	const resolver = new HashResolver({
		clock,
		send: (endpoint, body) => {
			const { type, resolutionId, hashes, remainingTimeoutMs } = body;
			const peer = sources.metadataFor(endpoint, false);
			return link.request(endpoint, {
				type,
				resolutionId,
				hashes,
				remainingTimeoutMs,
				peer,
			});
		},
		onIgnored: (reason) =>
			telemetry.count("kvcr_resolution_ignored_total", { reason }),
	});
	const outcomes = telemetry.family("kvcr_hint_outcomes_total", "outcome");
	const independent = new IndependentHintHandler({
		clock,
		resolver,
		adapter,
		advice,
		slotBytes: (label) =>
			cache === undefined ? undefined : slotBytes.get(poolOfLabel(label)),
		placement: {
			fetch: (group, done) => {
				health.check();
				if (fetch === undefined)
					throw new Error("this instance has no managed memory");
				placeGroup(
					fetch,
					group,
					clock.now() + settings.operationTimeoutMs,
					done,
				);
			},
			enqueueOwner: (task) => owner.enqueue(task),
		},
		operationTimeoutMs: settings.operationTimeoutMs,
		isFatal: (error) => error instanceof ProgressFailedError,
		onUnexpected: (error) =>
			telemetry.warnOnce(
				"placement",
				{ error },
				"an independent hint could not be admitted",
			),
		report: (outcome) => {
			outcomes.count(outcome.outcome);
			telemetry.duration("kvcr_hint_seconds", outcome.elapsedMs, {
				outcome: outcome.outcome,
			});
			telemetry.hintOutcome(outcome);
			telemetry.logger.debug(outcome, "independent hint outcome");
		},
	});
	const control = new ControlInbox({
		sources,
		pulls,
		serve,
		telemetry,
		incarnation,
		resolve: (message) => {
			const { senderControlEndpoint, sourceControlEndpoint } = message.header;
			if (senderControlEndpoint === undefined) return;
			link.reply(
				senderControlEndpoint,
				responder.answer(message),
				sourceControlEndpoint,
			);
			if (message.peer !== undefined)
				serve.targetMetadata({
					type: "target_metadata",
					header: message.header,
					peer: message.peer,
				});
		},
		resolved: (message) => {
			// The reply also says who answers there, which the write that follows needs to know.
			const { senderControlEndpoint } = message.header;
			if (senderControlEndpoint !== undefined && resolver.expects(message))
				sources.identify(senderControlEndpoint, message.header);
			resolver.resolved(message);
		},
		malformedResolved: (error) => resolver.malformed(error),
	});
	const inbox = new FairInbox({
		clock,
		handle: (bytes) => control.receive(bytes),
		dropped: (reason) => {
			telemetry.count("kvcr_control_dropped_total", { reason });
			channel.slowDown?.();
		},
		maxPeers: settings.maxPeers,
		maxMetadataBytes: settings.maxMetadataBytes,
	});
	const pump = new AgentPump(agent, {
		completed: (completion) => serve.completed(completion),
		notified: ({ from, payload }) => {
			const done = decodeNotification(payload);
			if (done === undefined)
				telemetry.count("kvcr_notifications_dropped_total", {
					reason: "malformed",
				});
			else pulls.writeDone(from, done);
		},
		failed: (error) => health.fail(error),
	});
	return {
		agent,
		channel,
		incarnation,
		telemetry,
		owner,
		lock,
		health,
		clock,
		operations,
		memory,
		cache,
		pins,
		sources,
		pulls,
		routes,
		serve,
		stall,
		advice,
		selector,
		copier,
		integrity,
		fetch,
		resolver,
		independent,
		inbox,
		pump,
	};
}
