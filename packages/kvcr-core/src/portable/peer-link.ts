/**
 * The way to one running agent: a queue of writes and notifications, and at most one connection.
 *
 * | state | connection | writes whose fate is open |
 * | --- | --- | --- |
 * | idle | none | none |
 * | dialing | being made | those sent on an earlier connection |
 * | open | welcomed | those sent on this connection |
 * | waiting | none, until the timer | those sent on an earlier connection |
 * | closed | none | none |
 *
 * A write that was sent on a connection which broke off may still be arriving at the target. It is completed only when a
 * new connection was welcomed (which ends the old one at the target), or when the target is known to be gone.
 */
import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "../ports/clock.js";
import {
	type Ack,
	Dialer,
	type DialTarget,
	type Ending,
	type Welcome,
} from "./dialer.js";
import { AckStatus, FrameType, frame, LINK_ID_BYTES } from "./frames.js";
import type { WriteJob } from "./write-job.js";

/** Bytes handed to the system ahead of what it has taken: enough to keep it busy, little enough to cancel soon. */
const WINDOW_BYTES = 4 << 20;

/** Free notifications that may wait for a connection. */
const MAX_QUEUED_NOTES = 4_096;

/** Shortest and longest time between attempts to learn the fate of open writes, in milliseconds. */
const RETRY_MS = { first: 100, longest: 10_000 } as const;

/** Time a retired connection has to send what it was given, in milliseconds. */
const RETIRE_MS = 1_000;

type LinkState = "idle" | "dialing" | "open" | "waiting" | "closed";

/** Settings every link of an agent shares. */
export interface LinkSettings {
	/** Name of the agent. */
	readonly self: string;
	readonly clock: Clock;
	/** Time a target has to answer a new connection, in milliseconds. */
	readonly greetingMs: number;
}

/** Sends to one running agent. */
export class PeerLink {
	readonly #settings: LinkSettings;
	readonly #target: DialTarget;
	#state: LinkState = "idle";
	#dialer: Dialer | undefined;
	/** What was not begun yet, oldest first. */
	#queue: (WriteJob | Uint8Array)[] = [];
	#queuedNotes = 0;
	/** The write whose bytes are being sent. */
	#current: WriteJob | undefined;
	/** Writes begun and not completed, by sequence number, oldest first. */
	readonly #begun = new Map<number, WriteJob>();
	#unflushed = 0;
	#retryMs: number = RETRY_MS.first;
	#retry: Timer | undefined;

	constructor(
		address: { host: string; port: number; token: Uint8Array },
		settings: LinkSettings,
	) {
		this.#settings = settings;
		this.#target = {
			...address,
			linkId: randomBytes(LINK_ID_BYTES),
			self: settings.self,
		};
	}

	/** Opens the connection if there is none. */
	connect(): void {
		if (this.#state === "idle") this.#dial();
	}

	/** Queues a write. */
	write(job: WriteJob): void {
		this.#queue.push(job);
		this.connect();
		this.#pump();
	}

	/** Queues a notification. False when too many wait. */
	notify(payload: Uint8Array): boolean {
		if (this.#state === "closed" || this.#queuedNotes >= MAX_QUEUED_NOTES)
			return false;
		this.#queue.push(frame(FrameType.notify, payload));
		this.#queuedNotes += 1;
		this.connect();
		this.#pump();
		return true;
	}

	/** Ends a write as soon as that can be known to be safe. */
	cancel(job: WriteJob): void {
		job.cancelRequested = true;
		if (job.state !== "queued") {
			this.#pump();
			return;
		}
		this.#queue = this.#queue.filter((entry) => entry !== job);
		job.end("cancelled", "cancelled before it began");
	}

	/**
	 * Closes a link without writes. Notifications that were handed to the system still go out, if they can soon. Resolves when
	 * the connection is gone.
	 */
	async retire(): Promise<void> {
		const dialer = this.#dialer;
		const opened = this.#state === "open";
		this.#shut();
		if (!opened) dialer?.end();
		else dialer?.endSoon(this.#settings.clock, RETIRE_MS);
		await dialer?.closed;
	}

	/**
	 * Ends the connection. Writes that were begun end without completion, since their fate at the target stays unknown; their
	 * source memory is let go once the system is done with the connection.
	 */
	async close(reason: string): Promise<void> {
		const dialer = this.#dialer;
		this.#failQueue("cancelled", reason);
		this.#shut();
		dialer?.end();
		await dialer?.closed;
		for (const job of this.#begun.values()) job.release();
		this.#begun.clear();
	}

	#shut(): void {
		this.#state = "closed";
		this.#retry?.cancel();
		this.#queue = [];
		this.#queuedNotes = 0;
		this.#current = undefined;
	}

	#dial(): void {
		this.#state = "dialing";
		this.#unflushed = 0;
		this.#dialer = new Dialer(
			this.#target,
			{
				welcomed: (welcome) => this.#welcomed(welcome),
				acknowledged: (ack) => this.#acknowledged(ack),
				ended: (ending) => this.#ended(ending),
			},
			this.#settings.clock,
			this.#settings.greetingMs,
		);
	}

	#welcomed({ processed, refused }: Welcome): void {
		if (this.#state !== "dialing") return;
		this.#state = "open";
		this.#retryMs = RETRY_MS.first;
		for (const [sequence, job] of this.#begun) {
			this.#begun.delete(sequence);
			if (sequence > processed) endUnfinished(job, "the connection was lost");
			else if (refused.has(sequence))
				endUnfinished(job, "the target refused it");
			else job.end("done");
		}
		this.#pump();
	}

	#acknowledged({ sequence, status, reason }: Ack): void {
		const job = this.#begun.get(sequence);
		// An answer to something that was never asked, or not yet sent whole, is not from a target one can believe.
		if (job?.state !== "sent") {
			this.#dialer?.end();
			return;
		}
		this.#begun.delete(sequence);
		if (status === AckStatus.done) job.end("done");
		else if (status === AckStatus.aborted) job.end("cancelled", reason);
		else job.end("failed", reason);
	}

	#ended({ certainty, reason }: Ending): void {
		const wasOpen = this.#state === "open";
		this.#dialer = undefined;
		this.#current = undefined;
		if (this.#state === "closed") return;
		this.#state = "idle";
		if (certainty === "gone") {
			for (const job of this.#begun.values()) endUnfinished(job, reason);
			this.#begun.clear();
		}
		// What was not begun can be given up without asking anybody, but deserves one attempt of its own.
		if (!wasOpen) this.#failQueue("failed", reason);
		if (wasOpen && (this.#begun.size > 0 || this.#queue.length > 0))
			this.#dial();
		else if (this.#begun.size > 0) this.#retryLater();
	}

	#retryLater(): void {
		this.#state = "waiting";
		this.#retry = this.#settings.clock.schedule(this.#retryMs, () => {
			this.#dial();
		});
		this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS.longest);
	}

	#failQueue(outcome: "failed" | "cancelled", reason: string): void {
		const queue = this.#queue;
		this.#queue = [];
		this.#queuedNotes = 0;
		for (const entry of queue)
			if (!(entry instanceof Uint8Array)) entry.end(outcome, reason);
	}

	/** Sends as long as the system takes it. */
	#pump(): void {
		const dialer = this.#dialer;
		if (this.#state !== "open" || dialer === undefined) return;
		while (this.#unflushed < WINDOW_BYTES) {
			const entry = this.#current ?? this.#queue.shift();
			if (entry === undefined) return;
			if (entry instanceof Uint8Array) {
				this.#queuedNotes -= 1;
				this.#send(dialer, [entry], entry.length);
			} else this.#sendPart(dialer, entry);
		}
	}

	#sendPart(dialer: Dialer, job: WriteJob): void {
		if (job.cancelRequested && job.state === "sending") {
			job.state = "sent";
			this.#current = undefined;
			const abort = frame(FrameType.abort, Buffer.alloc(0), job.transfer);
			this.#send(dialer, [abort], abort.length);
			return;
		}
		this.#begun.set(job.transfer, job);
		const { buffers, bytes, last } = job.next();
		this.#current = last ? undefined : job;
		this.#send(dialer, buffers, bytes);
	}

	#send(dialer: Dialer, buffers: Uint8Array[], bytes: number): void {
		this.#unflushed += bytes;
		dialer.send(buffers, () => {
			this.#unflushed -= bytes;
			this.#pump();
		});
	}
}

/** Ends a write that was not carried out. */
function endUnfinished(job: WriteJob, reason: string): void {
	job.end(job.cancelRequested ? "cancelled" : "failed", reason);
}
