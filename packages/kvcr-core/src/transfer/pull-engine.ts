/** Runs the pulls of one destination on progress: requests, deadlines, probes, refusals, and the final word on each. */
import type {
	Clock,
	Incarnation,
	OpHandle,
	TrafficExpectation,
} from "../ports/index.js";
import type { OwnerQueue } from "../progress/owner-queue.js";
import type {
	WriteDone,
	WriteProbeAckMessage,
	WriteRefusedMessage,
} from "../protocol/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";
import type { ControlLink } from "./control-link.js";
import type { HandleSequence } from "./handles.js";
import {
	completedIndices,
	Pull,
	type PullFailure,
	type PullRequest,
} from "./pull.js";
import { TransferError } from "./reports.js";
import type { SourceDirectory, SourceWaiter } from "./sources.js";

/** Attempts of one pull: the first, and one more after a refusal. */
const MAX_ATTEMPTS = 2;
/** Longest pause between two probes of a quarantined pull, in milliseconds. */
const MAX_PROBE_PAUSE_MS = 30_000;
const NOTHING: ReadonlySet<number> = new Set();

/** What the engine needs. */
export interface PullEngineOptions {
	readonly clock: Clock;
	readonly link: ControlLink;
	readonly sources: SourceDirectory;
	readonly handles: HandleSequence;
	readonly owner: OwnerQueue;
	readonly telemetry: Telemetry;
	readonly expectTraffic: () => TrafficExpectation;
	readonly operationTimeoutMs: number;
	readonly abandonTimeoutMs: number;
	/** Called on the owner's side. */
	readonly report: (report: TransferError) => void;
	/** Hands over notifications that have arrived and were not read yet. */
	readonly collect: () => void;
}

export class PullEngine {
	readonly #options: PullEngineOptions;
	/** Every pull that is not finished. */
	readonly #pulls = new Set<Pull>();
	/** Those that have been requested, by handle. */
	readonly #byHandle = new Map<OpHandle, Pull>();
	#closed = false;

	constructor(options: PullEngineOptions) {
		this.#options = options;
	}

	/** Pulls whose memory is not safe yet. */
	get size(): number {
		return this.#pulls.size;
	}

	/** Pulls by state. */
	countByState(): Readonly<Record<string, number>> {
		const counts: Record<string, number> = {};
		for (const pull of this.#pulls)
			counts[pull.state] = (counts[pull.state] ?? 0) + 1;
		return counts;
	}

	/**
	 * Starts a pull. Its listener hears of it in the owner's turn, also when it fails at once.
	 * @throws ProgressFailedError; then nothing was asked for, and the listener hears nothing.
	 */
	start(request: PullRequest): Pull {
		const { clock, sources } = this.#options;
		const pull = new Pull(request, clock);
		this.#pulls.add(pull);
		pull.timer = clock.schedule(request.deadline - clock.now(), () =>
			this.#deadline(pull),
		);
		const waiter = this.#waiterOf(pull);
		try {
			this.#watch(pull);
			if (this.#closed) this.#finish(pull, NOTHING, "closed");
			else if (!sources.await(request.source, waiter))
				this.#finish(pull, NOTHING, "peer_unreachable");
		} catch (error) {
			pull.timer?.cancel();
			this.#unwatch(pull);
			this.#forgetHandle(pull);
			this.#pulls.delete(pull);
			sources.forgetWaiter(request.source, waiter);
			throw error;
		}
		return pull;
	}

	/** Ends the caller's interest in a pull. Its memory stays claimed until the source is known to be done with it. */
	cancel(pull: Pull, cause: PullFailure): void {
		if (pull.state === "connecting") this.#finish(pull, NOTHING, cause);
		else if (pull.state === "requested") this.#giveUp(pull, cause);
	}

	/** A `write_done` arrived from an agent. */
	writeDone(from: string, done: WriteDone): void {
		const pull = this.#byHandle.get(done.opHandle);
		if (pull === undefined) {
			this.#dropped("unknown_operation");
			return;
		}
		if (pull.agentName !== undefined && pull.agentName !== from) {
			this.#dropped("wrong_agent");
			return;
		}
		if (!done.terminal) {
			// The source has given up but its write may still land: so do we, and go on waiting for the end.
			if (pull.state === "requested") this.#giveUp(pull, "transfer_failed");
			return;
		}
		if (pull.state !== "requested") {
			// Nobody waits for the bytes any more. That they came is worth knowing: the deadline may be too short.
			if (done.success) this.#dropped("late_success");
			this.#finish(pull, NOTHING, pull.cause);
			return;
		}
		const completed = done.success
			? completedIndices(done, pull.request.keys.length)
			: undefined;
		if (completed === undefined) this.#finish(pull, NOTHING, "transfer_failed");
		else this.#finish(pull, completed, "not_at_source");
	}

	/** The source says that an operation never was and never will be submitted. */
	refused(message: WriteRefusedMessage): void {
		const pull = this.#byHandle.get(message.opHandle);
		const endpoint = message.header.senderControlEndpoint;
		if (pull === undefined || pull.request.source !== endpoint) {
			this.#dropped("refusal_unmatched");
			return;
		}
		const { sources } = this.#options;
		// Whatever answered does not know us. A refusal that comes late must not erase what was learned since.
		if (sources.incarnationOf(endpoint) === pull.incarnation)
			sources.invalidate(endpoint);
		this.#options.telemetry.count("kvcr_writes_refused_total", {
			side: "destination",
		});
		if (pull.state !== "requested") this.#finish(pull, NOTHING, pull.cause);
		else this.#again(pull, "transfer_failed");
	}

	/** The source answered a probe. */
	probeAnswered(message: WriteProbeAckMessage): void {
		const pull = this.#byHandle.get(message.opHandle);
		const endpoint = message.header.senderControlEndpoint;
		if (
			pull === undefined ||
			endpoint === undefined ||
			pull.request.source !== endpoint
		) {
			this.#dropped("probe_ack_unmatched");
			return;
		}
		const answeredBy = message.header.senderIncarnation;
		const dead =
			message.deadIncarnation !== undefined &&
			message.deadIncarnation === pull.incarnation;
		if (pull.state === "requested") {
			// Asked only because somebody else answers there by now. A refusal would have come before this.
			if (pull.probes === 0 || answeredBy === pull.incarnation)
				this.#dropped("probe_ack_unmatched");
			else if (dead) {
				this.#options.sources.identify(endpoint, message.header);
				this.#again(pull, "peer_unreachable");
			} else this.#giveUp(pull, "peer_unreachable");
			return;
		}
		if (pull.state !== "cancelling" && pull.state !== "quarantined") {
			this.#dropped("probe_ack_unmatched");
			return;
		}
		if (dead || (message.terminal && answeredBy === pull.incarnation))
			this.#finish(pull, NOTHING, pull.cause);
		// Last: what else was asked of the dead one is probed because of it.
		if (dead) this.#options.sources.identify(endpoint, message.header);
	}

	/**
	 * Another incarnation answers at an endpoint: it may know what became of the one before. A pull that still waits goes on
	 * waiting for its answer: a refusal may be on its way, and allows another attempt.
	 */
	sourceReplaced(endpoint: string, incarnation: Incarnation): void {
		for (const pull of this.#pulls) {
			if (pull.request.source !== endpoint || pull.incarnation === incarnation)
				continue;
			if (pull.state !== "connecting") this.#probe(pull);
		}
	}

	/** Stops: pulls that asked for nothing yet end, the others are cancelled and probed. */
	stop(): void {
		this.#closed = true;
		for (const pull of [...this.#pulls]) this.cancel(pull, "closed");
	}

	/**
	 * Says of every pull that is left that its memory is at risk for good, and releases the timers: nobody will hear of an end
	 * any more.
	 */
	surrender(): void {
		for (const pull of this.#pulls) {
			pull.timer?.cancel();
			this.#abandon(pull);
			pull.timer?.cancel();
			pull.timer = undefined;
			this.#unwatch(pull);
		}
	}

	/**
	 * Ends every pull that is left, after the transfer agent proved that nothing can write into its memory any more.
	 */
	quiesced(): void {
		for (const pull of [...this.#pulls])
			this.#finish(
				pull,
				NOTHING,
				pull.state === "connecting" ? "closed" : pull.cause,
			);
	}

	#waiterOf(pull: Pull): SourceWaiter {
		pull.waiter = {
			sourceKnown: (incarnation) => this.#request(pull, incarnation),
		};
		return pull.waiter;
	}

	#request(pull: Pull, incarnation: Incarnation): void {
		if (pull.state !== "connecting") return;
		const { clock, link, sources, handles } = this.#options;
		const { request } = pull;
		const remaining = request.deadline - clock.now();
		if (remaining <= 0) {
			this.#finish(pull, NOTHING, "timeout");
			return;
		}
		// Handles are drawn in the order of sending: a source's fences rely on it.
		const handle =
			request.scope === "fetch" ? handles.fill() : handles.operation();
		pull.handle = handle;
		pull.incarnation = incarnation;
		pull.agentName = sources.agentNameOf(request.source);
		pull.attempts += 1;
		pull.enter("requested");
		this.#byHandle.set(handle, pull);
		const peer = sources.metadataFor(request.source, true);
		const accepted = link.request(request.source, {
			type: "start_write",
			opHandle: handle,
			remainingTimeoutMs: remaining,
			sourceIncarnation: incarnation,
			keys: request.keys.map((ref) => ref.key),
			dstDescriptors: request.destinations,
			allowLayoutSubset: request.scope === "deliver",
			allowFramework: request.allowFramework,
			mode: request.mode,
			peer,
		});
		if (accepted) return;
		sources.invalidate(request.source);
		this.#finish(pull, NOTHING, "peer_unreachable");
	}

	/** Asks once more, with all of the memory, for what is known to be over without a byte to come. */
	#again(pull: Pull, reason: PullFailure): void {
		const { sources, clock } = this.#options;
		const { source, deadline } = pull.request;
		if (
			pull.attempts >= MAX_ATTEMPTS ||
			clock.now() >= deadline ||
			this.#closed
		) {
			this.#finish(pull, NOTHING, reason);
			return;
		}
		this.#forgetHandle(pull);
		pull.probes = 0;
		pull.enter("connecting");
		if (!sources.await(source, this.#waiterOf(pull)))
			this.#finish(pull, NOTHING, "peer_unreachable");
	}

	#deadline(pull: Pull): void {
		pull.timer = undefined;
		// What arrived in time counts, even if this process was too busy to look.
		this.#options.collect();
		if (pull.state === "connecting")
			this.#finish(pull, NOTHING, "peer_unreachable");
		else if (pull.state === "requested") this.#giveUp(pull, "timeout");
	}

	/** Stops waiting and asks the source to stop too. The memory stays claimed. */
	#giveUp(pull: Pull, cause: PullFailure): void {
		const { clock, operationTimeoutMs, abandonTimeoutMs, owner } =
			this.#options;
		pull.cause = cause;
		pull.enter("cancelling");
		pull.timer?.cancel();
		// Both deadlines count from the start of the operation: a pull that waited for capacity began later.
		const startedAt = pull.request.deadline - operationTimeoutMs;
		pull.timer = clock.schedule(
			Math.max(0, startedAt + abandonTimeoutMs - clock.now()),
			() => this.#abandon(pull),
		);
		this.#probe(pull);
		owner.enqueue(() => pull.request.listener.expired(pull, cause));
	}

	#abandon(pull: Pull): void {
		pull.timer = undefined;
		if (pull.state !== "cancelling") return;
		pull.enter("quarantined");
		const report = this.#reportOf(pull, "uncertain");
		this.#options.owner.enqueue(() => {
			pull.request.listener.abandoned(pull);
			this.#options.report(report);
		});
		if (!this.#closed) this.#probeAgain(pull);
	}

	#probe(pull: Pull): void {
		const { link, sources } = this.#options;
		const handle = pull.handle;
		if (handle === undefined) return;
		pull.probes += 1;
		const peer = sources.metadataFor(pull.request.source, false);
		link.request(pull.request.source, {
			type: "write_probe",
			opHandle: handle,
			...(pull.incarnation !== undefined && {
				sourceIncarnation: pull.incarnation,
			}),
			...(peer !== undefined && { peer }),
		});
	}

	/** Probes a quarantined pull now and then, ever more rarely, and listens for the answer only around each probe. */
	#probeAgain(pull: Pull): void {
		const { clock, operationTimeoutMs, abandonTimeoutMs } = this.#options;
		this.#watch(pull);
		this.#probe(pull);
		pull.timer = clock.schedule(operationTimeoutMs, () => {
			this.#unwatch(pull);
			const pause = Math.min(
				abandonTimeoutMs * 2 ** Math.min(pull.probes, 16),
				MAX_PROBE_PAUSE_MS,
			);
			pull.timer = clock.schedule(pause, () => this.#probeAgain(pull));
		});
	}

	#finish(
		pull: Pull,
		completed: ReadonlySet<number>,
		reason: PullFailure,
	): void {
		const { owner, sources, telemetry, clock, report } = this.#options;
		const wasQuarantined = pull.state === "quarantined";
		const quiesced = wasQuarantined
			? this.#reportOf(pull, "quiesced")
			: undefined;
		pull.enter("finished");
		pull.timer?.cancel();
		pull.timer = undefined;
		this.#unwatch(pull);
		this.#forgetHandle(pull);
		this.#pulls.delete(pull);
		const { waiter } = pull;
		if (waiter !== undefined) sources.forgetWaiter(pull.request.source, waiter);
		const total = pull.request.keys.length;
		const result =
			completed.size === total
				? "success"
				: completed.size > 0
					? "partial"
					: "failed";
		let bytes = 0;
		for (const index of completed) bytes += pull.request.bytesOf(index);
		telemetry.transfer({
			side: "destination",
			scope: pull.request.scope,
			result,
			reason: result === "success" ? undefined : reason,
			blocks: completed.size,
			bytes,
			elapsedMs: clock.now() - pull.startedAt,
			peer: pull.request.source,
		});
		owner.enqueue(() => {
			pull.request.listener.finished(pull, completed, reason);
			if (quiesced !== undefined) report(quiesced);
		});
	}

	#forgetHandle(pull: Pull): void {
		if (pull.handle !== undefined) this.#byHandle.delete(pull.handle);
	}

	#watch(pull: Pull): void {
		pull.expectation ??= this.#options.expectTraffic();
	}

	#unwatch(pull: Pull): void {
		pull.expectation?.end();
		pull.expectation = undefined;
	}

	#reportOf(pull: Pull, state: "uncertain" | "quiesced"): TransferError {
		const elements = pull.request.destinations.flat().map((element) => ({
			label: element.label,
			element: element.elementIndex,
			owner: element.framework ? ("framework" as const) : ("kvcr" as const),
		}));
		return new TransferError(
			state,
			"destination",
			pull.handle ?? (0n as OpHandle),
			elements,
		);
	}

	#dropped(reason: string): void {
		this.#options.telemetry.count("kvcr_notifications_dropped_total", {
			reason,
		});
	}
}
