/**
 * The source's side of transfers: admits what targets ask for, claims the memory, posts one write with its notification, and
 * keeps every claim until the agent has proven the write over.
 *
 * Progress serves on its own when everything is in ready managed memory and the state lock is free. What needs the
 * framework, or the lock, waits for the owner's next turn.
 */
import { keyRef } from "../owner/key-ref.js";
import { StaleRemoteError } from "../ports/errors.js";
import type {
	Clock,
	Incarnation,
	TransferAgent,
	TransferCompletion,
	TransferId,
} from "../ports/index.js";
import type { OwnerQueue } from "../progress/owner-queue.js";
import type { StallMonitor } from "../progress/stall-monitor.js";
import type { StateLock } from "../progress/state-lock.js";
import type {
	MalformedStartWriteError,
	MessageHeader,
	PeerMetadata,
	StartWriteMessage,
	TargetMetadataMessage,
	WriteProbeMessage,
} from "../protocol/index.js";
import { encodeWriteDone } from "../protocol/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";
import type { ControlLink } from "./control-link.js";
import { EndedWrites, WriteName } from "./ended-writes.js";
import type { FenceTable } from "./fences.js";
import { TransferError } from "./reports.js";
import type { Route, RouteTable } from "./routes.js";
import { type ServeDestination, ServeJob } from "./serve-job.js";
import type { ServeReplies } from "./serve-replies.js";
import type { SourceMemory } from "./source-memory.js";

/** What the engine needs. */
export interface ServeEngineOptions {
	readonly agent: TransferAgent;
	readonly clock: Clock;
	readonly link: ControlLink;
	readonly routes: RouteTable;
	readonly fences: FenceTable;
	readonly replies: ServeReplies;
	readonly memory: SourceMemory;
	readonly lock: StateLock;
	readonly owner: OwnerQueue;
	readonly stall: StallMonitor;
	readonly telemetry: Telemetry;
	readonly incarnation: Incarnation;
	/** True when no other live process can receive at our control endpoint, so that a predecessor there must be dead. */
	readonly exclusiveEndpoint: boolean;
	readonly operationTimeoutMs: number;
	readonly abandonTimeoutMs: number;
	/** Writes in progress for one peer at most; more are refused. */
	readonly maxWritesPerPeer: number;
	/** Called on the owner's side. */
	readonly report: (report: TransferError) => void;
}

export class ServeEngine {
	readonly #o: ServeEngineOptions;
	readonly #jobs = new Map<string, ServeJob>();
	readonly #byTransfer = new Map<TransferId, ServeJob>();
	readonly #ended: EndedWrites;
	/** Jobs that wait for the owner's next turn. */
	readonly #forOwner = new Set<ServeJob>();
	#ownerAsked = false;
	#stopped = false;

	constructor(options: ServeEngineOptions) {
		this.#o = options;
		this.#ended = new EndedWrites(options.fences);
	}

	/** Writes asked for and not over yet. */
	get size(): number {
		return this.#jobs.size;
	}

	/** A target introduces itself ahead of need. */
	targetMetadata(message: TargetMetadataMessage): void {
		if (message.peer === undefined || this.#stopped) return;
		const own = message.header.senderIncarnation === this.#o.incarnation;
		if (!own && this.#route(message.header, message.peer) === undefined) return;
		this.#o.replies.acknowledge(message.header);
	}

	/** A target asks for a write. */
	startWrite(message: StartWriteMessage): void {
		const { header, opHandle } = message;
		this.#o.stall.traffic();
		const name = writeName(header, opHandle);
		// A copy. The operation is answered once, when it ends; serving it again would write where others are by now.
		if (this.#isKnown(name)) return;
		const reason = this.#refusal(message);
		if (reason !== undefined) {
			this.#refuse(name, header, reason);
			return;
		}
		const route = this.#route(header, message.peer);
		if (route === undefined) {
			this.#refuse(name, header, "no_route");
			return;
		}
		if (message.peer !== undefined)
			this.#o.replies.acknowledge(header, opHandle);
		const destinations = this.#locate(route, message);
		if (destinations === undefined) {
			this.#ended.add(name);
			this.#o.replies.fail(route, header, opHandle, "bad_element");
			return;
		}
		if (route.users >= this.#o.maxWritesPerPeer) {
			this.#refuse(name, header, "too_many_writes");
			return;
		}
		this.#admit(message, name, route, destinations);
	}

	/**
	 * A `start_write` that cannot be used, but can be answered. Without knowing whose it is, nothing would keep an intact copy
	 * from being served after the answer: then the target's deadline decides.
	 */
	malformed(error: MalformedStartWriteError): void {
		const { targetAgent, senderIncarnation, opHandle } = error;
		const { senderControlEndpoint, sourceControlEndpoint } = error;
		if (targetAgent === undefined || senderIncarnation === undefined) return;
		const name = new WriteName(targetAgent, senderIncarnation, opHandle);
		if (this.#isKnown(name)) return;
		const header = {
			...(senderControlEndpoint !== undefined && { senderControlEndpoint }),
			...(sourceControlEndpoint !== undefined && { sourceControlEndpoint }),
		};
		this.#refuse(name, header, "malformed");
	}

	/** A target has given up on a write and asks what became of it. */
	probe(message: WriteProbeMessage): void {
		const { header, opHandle, sourceIncarnation } = message;
		const { incarnation, fences, link, exclusiveEndpoint } = this.#o;
		if (header.senderControlEndpoint === undefined) return;
		const meant =
			sourceIncarnation === undefined || sourceIncarnation === incarnation;
		const job = meant
			? this.#jobs.get(writeName(header, opHandle).text)
			: undefined;
		if (meant)
			fences.fence(header.targetAgent, header.senderIncarnation, opHandle);
		if (job !== undefined) this.#cancel(job);
		if (message.peer !== undefined)
			this.targetMetadata({
				type: "target_metadata",
				header,
				peer: message.peer,
			});
		// A job that was only being admitted is finished by now; one that still exists has a write outstanding.
		const terminal = meant && (job === undefined || job.state === "finished");
		const dead = !meant && exclusiveEndpoint ? sourceIncarnation : undefined;
		link.reply(
			header.senderControlEndpoint,
			{
				type: "write_probe_ack",
				opHandle,
				terminal,
				...(dead !== undefined && { deadIncarnation: dead }),
			},
			header.sourceControlEndpoint,
		);
	}

	/** The agent ended a write. */
	completed(completion: TransferCompletion): void {
		const job = this.#byTransfer.get(completion.transfer);
		if (job === undefined) return;
		const succeeded = completion.outcome === "done" && job.state === "writing";
		if (completion.outcome !== "done")
			this.#o.replies.notify(job.request, { success: false });
		if (succeeded && job.request.move) this.#o.memory.retire(job);
		this.#finish(
			job,
			succeeded ? "success" : "failed",
			completion.reason ?? completion.outcome,
		);
	}

	/** Refuses new work, ends what is not posted yet and cancels what is. */
	stop(): void {
		this.#stopped = true;
		for (const job of [...this.#jobs.values()]) this.#cancel(job);
	}

	/** Says of every job that is left that its memory may be read for good, and releases the timers. */
	surrender(): void {
		for (const job of this.#jobs.values()) {
			job.timer?.cancel();
			if (!job.abandoned) this.#abandon(job);
		}
	}

	/** Ends every job that is left, after the agent proved that nothing reads memory any more. */
	quiesced(): void {
		for (const job of [...this.#jobs.values()])
			this.#finish(job, "failed", "closed");
	}

	/** True for an operation under way, and for one that is over. */
	#isKnown(name: WriteName): boolean {
		return this.#jobs.has(name.text) || this.#ended.has(name);
	}

	/** Says that an operation never will be submitted, and keeps to it. */
	#refuse(
		name: WriteName,
		header: Parameters<ServeReplies["refuse"]>[0],
		reason: string,
	): void {
		this.#ended.add(name);
		this.#o.replies.refuse(header, name.opHandle, reason);
	}

	#refusal(message: StartWriteMessage): string | undefined {
		const { header, opHandle, sourceIncarnation } = message;
		const { incarnation, fences, stall } = this.#o;
		if (this.#stopped) return "stopping";
		if (header.senderIncarnation === incarnation) return "self";
		if (sourceIncarnation !== undefined && sourceIncarnation !== incarnation)
			return "dead_incarnation";
		if (fences.isFenced(header.targetAgent, header.senderIncarnation, opHandle))
			return "fenced";
		return stall.stalled ? "stalled" : undefined;
	}

	/** The route of a message; undefined when the sender is unknown, or what it sent cannot be used. */
	#route(
		header: MessageHeader,
		peer: PeerMetadata | undefined,
	): Route | undefined {
		try {
			return this.#o.routes.resolve(header, peer);
		} catch (error) {
			this.#o.telemetry.warnOnce(
				"peer-setup",
				{ error, peer: header.targetAgent },
				"peer metadata refused",
			);
			return undefined;
		}
	}

	#locate(
		route: Route,
		message: StartWriteMessage,
	): ServeDestination[][] | undefined {
		const result: ServeDestination[][] = [];
		for (const elements of message.dstDescriptors) {
			const pieces: ServeDestination[] = [];
			for (const element of elements) {
				const found = this.#o.routes.locate(route, element);
				if (found === undefined) return undefined;
				const { regionIndex, size } = found;
				pieces.push({
					regionIndex,
					element: found.element,
					size,
					label: element.label,
				});
			}
			result.push(pieces);
		}
		return result;
	}

	#admit(
		message: StartWriteMessage,
		name: WriteName,
		route: Route,
		destinations: ServeDestination[][],
	): void {
		const { clock, operationTimeoutMs } = this.#o;
		const startedAt = clock.now();
		const remaining = Math.min(message.remainingTimeoutMs, operationTimeoutMs);
		const job = new ServeJob(
			{
				name,
				opHandle: message.opHandle,
				route,
				replyTo: message.header.senderControlEndpoint,
				askedAs: message.header.sourceControlEndpoint,
				keys: message.keys.map(keyRef),
				destinations,
				allowSubset: message.allowLayoutSubset,
				allowFramework: message.allowFramework,
				move: message.mode === "move",
				startedAt,
				deadline: startedAt + remaining,
			},
			(settled) => this.#write(settled),
		);
		route.users += 1;
		this.#jobs.set(name.text, job);
		job.timer = clock.schedule(remaining, () => this.#expire(job));
		if (!this.#o.lock.held && this.#o.memory.claim(job)) this.#write(job);
		else this.#askOwner(job);
	}

	/** One task for everything that waits: an owner that does not come for long finds no queue of what died meanwhile. */
	#askOwner(job: ServeJob): void {
		this.#forOwner.add(job);
		if (this.#ownerAsked) return;
		this.#ownerAsked = true;
		this.#o.owner.enqueue(() => {
			this.#ownerAsked = false;
			const jobs = [...this.#forOwner];
			this.#forOwner.clear();
			for (const waiting of jobs) this.#gather(waiting);
		});
	}

	/** In the owner's turn: claims again, and asks the framework for the rest. */
	#gather(job: ServeJob): void {
		if (job.state !== "admitting") return;
		const { memory } = this.#o;
		if (memory.claim(job) || memory.pin(job)) this.#write(job);
	}

	/** Posts the write of everything that could be had. */
	#write(job: ServeJob): void {
		if (job.state !== "admitting") return;
		const { route, opHandle } = job.request;
		const { agent, clock, stall } = this.#o;
		if (!route.current) {
			this.#failJob(job, "route_replaced");
			return;
		}
		if (clock.now() >= job.request.deadline) {
			this.#failJob(job, "timeout");
			return;
		}
		if (stall.stalled) {
			this.#failJob(job, "stalled");
			return;
		}
		const { pairs, indices } = this.#o.memory.plan(job);
		if (pairs.length === 0) {
			this.#o.replies.notify(job.request, {
				success: true,
				completedIndices: [],
			});
			this.#finish(job, "success", "nothing_here");
			return;
		}
		try {
			const notification = encodeWriteDone({
				opHandle,
				success: true,
				completedIndices: indices,
			});
			job.transfer = agent.write({ remote: route.remote, pairs, notification });
		} catch (error) {
			// The target is told to introduce itself again, and that must not find the same dead handle.
			if (error instanceof StaleRemoteError) this.#o.routes.drop(route);
			this.#o.telemetry.warnOnce(
				"write",
				{ error, peer: route.agentName },
				"write refused by the transfer agent",
			);
			this.#failJob(job, "not_posted");
			return;
		}
		job.enter("writing");
		this.#byTransfer.set(job.transfer, job);
	}

	#expire(job: ServeJob): void {
		job.timer = undefined;
		this.#cancel(job);
	}

	/** Ends the target's interest in a job. */
	#cancel(job: ServeJob): void {
		if (job.state === "admitting") {
			this.#failJob(job, "cancelled");
			return;
		}
		if (job.state !== "writing" || job.transfer === undefined) return;
		const { agent, clock, operationTimeoutMs, abandonTimeoutMs } = this.#o;
		job.enter("cancelling");
		try {
			agent.cancel(job.transfer);
		} catch (error) {
			// The write goes on: its claims stay until it ends.
			this.#o.telemetry.warnOnce(
				"cancel",
				{ error, peer: job.request.route.agentName },
				"the transfer agent failed to cancel a write",
			);
		}
		this.#o.replies.notify(job.request, { success: false, terminal: false });
		job.timer?.cancel();
		const until =
			job.request.deadline + (abandonTimeoutMs - operationTimeoutMs);
		job.timer = clock.schedule(Math.max(0, until - clock.now()), () =>
			this.#abandon(job),
		);
	}

	#abandon(job: ServeJob): void {
		job.timer = undefined;
		if (job.state !== "cancelling") return;
		job.abandoned = true;
		const report = new TransferError(
			"uncertain",
			"source",
			job.request.opHandle,
			job.sources,
		);
		this.#o.owner.enqueue(() => this.#o.report(report));
	}

	/** A job that never posted anything. */
	#failJob(job: ServeJob, reason: string): void {
		this.#o.replies.notify(job.request, { success: false });
		this.#finish(job, "failed", reason);
	}

	#finish(job: ServeJob, result: "success" | "failed", reason: string): void {
		const { clock, telemetry, owner } = this.#o;
		job.enter("finished");
		job.timer?.cancel();
		job.timer = undefined;
		this.#jobs.delete(job.request.name.text);
		this.#forOwner.delete(job);
		this.#ended.add(job.request.name);
		job.request.route.users -= 1;
		if (job.transfer !== undefined) this.#byTransfer.delete(job.transfer);
		this.#o.memory.release(job);
		// Closing waits for the last one, and for nothing else.
		if (this.#stopped) owner.wake();
		if (job.abandoned) {
			const report = new TransferError(
				"quiesced",
				"source",
				job.request.opHandle,
				job.sources,
			);
			owner.enqueue(() => this.#o.report(report));
		}
		const partial =
			result === "success" && job.blocks < job.request.keys.length;
		telemetry.transfer({
			side: "source",
			scope: "serve",
			result: partial ? "partial" : result,
			reason: result === "failed" ? reason : undefined,
			blocks: result === "success" ? job.blocks : 0,
			bytes: result === "success" ? job.bytes : 0,
			elapsedMs: clock.now() - job.request.startedAt,
			peer: job.request.route.agentName,
		});
	}
}

function writeName(
	header: MessageHeader,
	opHandle: StartWriteMessage["opHandle"],
): WriteName {
	return new WriteName(header.targetAgent, header.senderIncarnation, opHandle);
}
