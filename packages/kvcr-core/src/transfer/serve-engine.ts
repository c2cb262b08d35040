/**
 * The source's side of transfers: admits what targets ask for, claims the memory, posts one write with its notification, and
 * keeps every claim until the agent has proven the write over.
 *
 * Progress serves on its own when everything is in ready managed memory and the state lock is free. What needs the
 * framework, or the lock, waits for the owner's next turn.
 */
import type { ManagedCache, Residency } from "../cache/index.js";
import type { PinLedger } from "../framework/pins.js";
import { keyRef } from "../owner/key-ref.js";
import type {
	Clock,
	ElementPair,
	Incarnation,
	MemoryRegion,
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
	StartWriteMessage,
	TargetMetadataMessage,
	WriteProbeMessage,
} from "../protocol/index.js";
import { encodeWriteDone } from "../protocol/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";
import type { ControlLink } from "./control-link.js";
import type { FenceTable } from "./fences.js";
import { layoutIndices } from "./layout.js";
import { TransferError } from "./reports.js";
import type { Route, RouteTable } from "./routes.js";
import {
	type ServeDestination,
	ServeJob,
	type ServeRequest,
} from "./serve-job.js";

/** What the engine needs. */
export interface ServeEngineOptions {
	readonly agent: TransferAgent;
	readonly clock: Clock;
	readonly link: ControlLink;
	readonly routes: RouteTable;
	readonly fences: FenceTable;
	readonly cache: ManagedCache | undefined;
	readonly pins: PinLedger | undefined;
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

/** A source piece chosen for a destination piece. */
interface SourcePiece {
	readonly region: MemoryRegion;
	readonly element: number;
	readonly label: string;
	readonly owner: "framework" | "kvcr";
}

export class ServeEngine {
	readonly #o: ServeEngineOptions;
	readonly #jobs = new Map<string, ServeJob>();
	readonly #byTransfer = new Map<TransferId, ServeJob>();
	#stopped = false;

	constructor(options: ServeEngineOptions) {
		this.#o = options;
	}

	/** Writes asked for and not over yet. */
	get size(): number {
		return this.#jobs.size;
	}

	/** A target introduces itself ahead of need. */
	targetMetadata(message: TargetMetadataMessage): void {
		if (message.peer === undefined || this.#stopped) return;
		if (message.header.senderIncarnation !== this.#o.incarnation) {
			try {
				this.#o.routes.resolve(message.header, message.peer);
			} catch (error) {
				this.#o.telemetry.warnOnce(
					"peer-setup",
					{ error, peer: message.header.targetAgent },
					"peer metadata refused",
				);
				return;
			}
		}
		this.#acknowledge(message.header, {});
	}

	/** A target asks for a write. */
	startWrite(message: StartWriteMessage): void {
		const { header, opHandle } = message;
		this.#o.stall.traffic();
		const id = jobId(header, opHandle);
		if (this.#jobs.has(id)) {
			this.#count("duplicate");
			return;
		}
		const reason = this.#refusal(message);
		if (reason !== undefined) {
			this.#refuse(header, opHandle, reason);
			return;
		}
		let route: Route | undefined;
		try {
			route = this.#o.routes.resolve(header, message.peer);
		} catch (error) {
			this.#o.telemetry.warnOnce(
				"peer-setup",
				{ error, peer: header.targetAgent },
				"peer metadata refused",
			);
		}
		if (route === undefined) {
			this.#refuse(header, opHandle, "no_route");
			return;
		}
		if (message.peer !== undefined) this.#acknowledge(header, { opHandle });
		const destinations = this.#locate(route, message);
		if (destinations === undefined) {
			this.#failUnsubmitted(route, header, opHandle, "bad_element");
			return;
		}
		if (route.users >= this.#o.maxWritesPerPeer) {
			this.#refuse(header, opHandle, "too_many_writes");
			return;
		}
		this.#admit(message, id, route, destinations);
	}

	/** A `start_write` that cannot be used, but can be answered. */
	malformed(error: MalformedStartWriteError): void {
		if (error.senderControlEndpoint === undefined) return;
		this.#count("malformed");
		const body = { type: "write_refused", opHandle: error.opHandle } as const;
		this.#o.link.reply(
			error.senderControlEndpoint,
			body,
			error.sourceControlEndpoint,
		);
	}

	/** A target has given up on a write and asks what became of it. */
	probe(message: WriteProbeMessage): void {
		const { header, opHandle, sourceIncarnation } = message;
		const { incarnation, fences, link, exclusiveEndpoint } = this.#o;
		if (header.senderControlEndpoint === undefined) return;
		const meant =
			sourceIncarnation === undefined || sourceIncarnation === incarnation;
		const job = meant ? this.#jobs.get(jobId(header, opHandle)) : undefined;
		if (meant)
			fences.fence(header.targetAgent, header.senderIncarnation, opHandle);
		if (job !== undefined) this.#cancel(job);
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
			this.#notify(job.request, { success: false });
		if (succeeded && job.request.move) this.#retire(job.written);
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

	/** Ends every job that is left, after the agent proved that nothing reads memory any more. */
	quiesced(): void {
		for (const job of [...this.#jobs.values()])
			this.#finish(job, "failed", "closed");
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
				pieces.push({ ...found, label: element.label });
			}
			result.push(pieces);
		}
		return result;
	}

	#admit(
		message: StartWriteMessage,
		id: string,
		route: Route,
		destinations: ServeDestination[][],
	): void {
		const { clock, operationTimeoutMs } = this.#o;
		const startedAt = clock.now();
		const remaining = Math.min(message.remainingTimeoutMs, operationTimeoutMs);
		const job = new ServeJob(
			{
				id,
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
		this.#jobs.set(id, job);
		job.timer = clock.schedule(remaining, () => this.#expire(job));
		if (this.#o.lock.held) this.#o.owner.enqueue(() => this.#gather(job));
		else if (this.#claim(job)) this.#write(job);
		else this.#o.owner.enqueue(() => this.#gather(job));
	}

	/** Claims what is ready here. True: nothing is missing, or nothing more could be had. */
	#claim(job: ServeJob): boolean {
		const { cache, pins } = this.#o;
		const { keys, allowFramework } = job.request;
		for (const { text } of keys) {
			if (job.claims.has(text)) continue;
			const residency = cache?.get(text);
			if (residency?.state !== "READY") continue;
			cache?.claim(residency);
			job.claims.set(text, residency);
		}
		return (
			job.claims.size === keys.length || pins === undefined || !allowFramework
		);
	}

	/** In the owner's turn: claims again, and asks the framework for the rest. */
	#gather(job: ServeJob): void {
		if (job.state !== "admitting") return;
		const { pins } = this.#o;
		if (this.#claim(job) || pins === undefined) {
			this.#write(job);
			return;
		}
		job.pinsRequested = true;
		const missing = job.request.keys.filter((ref) => !job.claims.has(ref.text));
		if (pins.acquire(job, missing)) this.#write(job);
	}

	/** Posts the write of everything that could be had. */
	#write(job: ServeJob): void {
		if (job.state !== "admitting") return;
		const { route, keys, destinations, opHandle, startedAt } = job.request;
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
		const pairs: ElementPair[] = [];
		const indices: number[] = [];
		const sources: {
			label: string;
			element: number;
			owner: "framework" | "kvcr";
		}[] = [];
		const usedPins = new Set<string>();
		for (let index = 0; index < keys.length; index += 1) {
			const text = keys[index]?.text ?? "";
			const wanted = destinations[index] ?? [];
			const residency = job.claims.get(text);
			const pieces = this.#select(job, text, residency, wanted);
			if (pieces === undefined) {
				if (residency !== undefined) this.#unclaim(job, text, residency);
				continue;
			}
			indices.push(index);
			if (residency !== undefined) job.written.push(residency);
			else usedPins.add(text);
			for (let piece = 0; piece < pieces.length; piece += 1) {
				const from = pieces[piece] as SourcePiece;
				const to = wanted[piece] as ServeDestination;
				pairs.push({
					region: from.region,
					element: from.element,
					remoteRegion: to.regionIndex,
					remoteElement: to.element,
				});
				sources.push({
					label: from.label,
					element: from.element,
					owner: from.owner,
				});
				job.bytes += to.size;
			}
		}
		if (job.pinsRequested) this.#o.pins?.retain(job, usedPins);
		job.sources = sources;
		job.blocks = indices.length;
		if (pairs.length === 0) {
			this.#notify(job.request, { success: true, completedIndices: [] });
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
			this.#o.telemetry.warnOnce(
				"write",
				{ error, peer: route.agentName, ms: clock.now() - startedAt },
				"write refused by the transfer agent",
			);
			this.#failJob(job, "not_posted");
			return;
		}
		job.enter("writing");
		this.#byTransfer.set(job.transfer, job);
	}

	/** The pieces to read for one key: managed memory first, then the framework's, if the sizes and labels fit. */
	#select(
		job: ServeJob,
		text: string,
		residency: Residency | undefined,
		wanted: readonly ServeDestination[],
	): readonly SourcePiece[] | undefined {
		const { cache, pins } = this.#o;
		let have: readonly SourcePiece[] | undefined;
		if (residency !== undefined && cache !== undefined) {
			have = cache.pieces(residency).map((piece) => ({
				region: piece.region,
				element: piece.slot,
				label: piece.label,
				owner: "kvcr" as const,
			}));
		} else if (job.pinsRequested) {
			have = pins
				?.pieces(job, text)
				?.map((piece) => ({ ...piece, owner: "framework" as const }));
		}
		if (have === undefined) return undefined;
		const found = have;
		const labels = found.map((piece) => piece.label);
		const indices = layoutIndices(
			labels,
			wanted.map((piece) => piece.label),
			job.request.allowSubset,
		);
		if (indices === undefined) return this.#mismatch(text);
		const chosen = indices.map((index) => found[index] as SourcePiece);
		const fits = chosen.every(
			(piece, index) => piece.region.elementBytes === wanted[index]?.size,
		);
		return fits ? chosen : this.#mismatch(text);
	}

	#mismatch(text: string): undefined {
		this.#o.telemetry.warnOnce(
			"layout-mismatch",
			{ key: Buffer.from(text, "latin1").toString("hex") },
			"a peer asked for a block in another layout than it has here",
		);
		return undefined;
	}

	#expire(job: ServeJob): void {
		job.timer = undefined;
		this.#cancel(job);
	}

	/** Ends the target's interest in a job. */
	#cancel(job: ServeJob): void {
		job.cancelRequested = true;
		if (job.state === "admitting") {
			this.#failJob(job, "cancelled");
			return;
		}
		if (job.state !== "writing" || job.transfer === undefined) return;
		const { agent, clock, operationTimeoutMs, abandonTimeoutMs } = this.#o;
		job.enter("cancelling");
		agent.cancel(job.transfer);
		this.#notify(job.request, { success: false, terminal: false });
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
		this.#notify(job.request, { success: false });
		this.#finish(job, "failed", reason);
	}

	#finish(job: ServeJob, result: "success" | "failed", reason: string): void {
		const { clock, telemetry, lock, owner, pins } = this.#o;
		job.enter("finished");
		job.timer?.cancel();
		job.timer = undefined;
		this.#jobs.delete(job.request.id);
		job.request.route.users -= 1;
		if (job.transfer !== undefined) this.#byTransfer.delete(job.transfer);
		const claims = [...job.claims.values()];
		job.claims.clear();
		if (claims.length > 0) {
			lock.whenFree(() => {
				for (const residency of claims) this.#o.cache?.unclaim(residency);
			});
			owner.wake();
		}
		if (job.pinsRequested) owner.enqueue(() => pins?.drop(job));
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
			...(result === "failed" && { reason }),
			blocks: result === "success" ? job.blocks : 0,
			bytes: result === "success" ? job.bytes : 0,
			elapsedMs: clock.now() - job.request.startedAt,
			peer: job.request.route.agentName,
		});
	}

	#unclaim(job: ServeJob, text: string, residency: Residency): void {
		job.claims.delete(text);
		this.#o.lock.whenFree(() => this.#o.cache?.unclaim(residency));
	}

	/** A completed move: the source may drop its copies once nobody reads them. */
	#retire(residencies: readonly Residency[]): void {
		const { cache, lock, telemetry } = this.#o;
		if (cache === undefined || residencies.length === 0) return;
		telemetry.count("kvcr_retired_blocks_total", {}, residencies.length);
		lock.whenFree(() => {
			for (const residency of residencies)
				if (residency.state === "READY") cache.retire(residency);
		});
	}

	#acknowledge(
		header: MessageHeader,
		more: { opHandle?: StartWriteMessage["opHandle"] },
	): void {
		if (header.senderControlEndpoint === undefined) return;
		const body = { type: "target_metadata_ack", ...more } as const;
		this.#o.link.reply(
			header.senderControlEndpoint,
			body,
			header.sourceControlEndpoint,
		);
	}

	#refuse(
		header: MessageHeader,
		opHandle: StartWriteMessage["opHandle"],
		reason: string,
	): void {
		this.#count(reason);
		if (header.senderControlEndpoint === undefined) return;
		this.#o.link.reply(
			header.senderControlEndpoint,
			{ type: "write_refused", opHandle },
			header.sourceControlEndpoint,
		);
	}

	#failUnsubmitted(
		route: Route,
		header: MessageHeader,
		opHandle: StartWriteMessage["opHandle"],
		reason: string,
	): void {
		this.#count(reason);
		this.#notify(
			{
				route,
				opHandle,
				replyTo: header.senderControlEndpoint,
				askedAs: header.sourceControlEndpoint,
			},
			{ success: false },
		);
	}

	/** Tells the target about an end that no write carries; over the control channel when the agent has no way there. */
	#notify(
		request: Pick<ServeRequest, "route" | "opHandle" | "replyTo" | "askedAs">,
		done: {
			success: boolean;
			completedIndices?: readonly number[];
			terminal?: boolean;
		},
	): void {
		const { route, opHandle, replyTo, askedAs } = request;
		let sent = false;
		try {
			sent = this.#o.agent.notify(
				route.remote,
				encodeWriteDone({ opHandle, ...done }),
			);
		} catch {
			// A stale route has no way home; the control channel may.
		}
		if (
			sent ||
			done.success ||
			done.terminal === false ||
			replyTo === undefined
		)
			return;
		this.#o.link.reply(replyTo, { type: "write_refused", opHandle }, askedAs);
	}

	#count(reason: string): void {
		this.#o.telemetry.count("kvcr_writes_refused_total", {
			side: "source",
			reason,
		});
	}
}

function jobId(
	header: MessageHeader,
	opHandle: StartWriteMessage["opHandle"],
): string {
	return `${opHandle}:${header.senderIncarnation}:${header.targetAgent}`;
}
