/**
 * The bounded send buffer. The client's own buffer is unbounded, and it is thrown away at each attempt to reconnect; so
 * messages stay here until the link is up, and only a window of them is handed to the client at a time. A window is
 * released when the server has confirmed (by a PING/PONG round) that it took the messages.
 *
 * What was handed over when the connection broke is never sent again: it may have arrived, and at most once is the rule.
 */
import type { Clock, Timer } from "kvcr-core";

/** What the outbox needs of a link. */
export interface OutboxLink {
	/** Largest message the server takes, in bytes. */
	readonly maxPayload: number;
	publish(subject: string, payload: Uint8Array, reply?: string): boolean;
	/** True once the server took everything published before; false when the connection was lost. */
	flushed(): Promise<boolean>;
}

/** Bounds of the outbox; all include what the server has not confirmed yet. */
export interface OutboxLimits {
	/** Most messages kept. */
	readonly maxMessages: number;
	/** Most bytes kept. */
	readonly maxBytes: number;
	/** Oldest age a message may reach before it is handed to the client, in milliseconds. */
	readonly maxAgeMs: number;
}

/** Accepted messages that were not, or perhaps not, delivered. */
export interface LostCounts {
	/** Waited longer than `maxAgeMs` for a connection. */
	expired: number;
	/** Handed to a connection that broke before the server confirmed: delivered or not, nobody knows. */
	unconfirmed: number;
	/** Larger than the limit of the server connected now (another one than at the time of `send`). */
	over_server_limit: number;
	/** Refused by the client library. */
	publish_failed: number;
	/** Still queued when the channel was closed. */
	closed: number;
}

/** Bytes handed to the client and not yet confirmed, beyond which the rest waits here. */
const WINDOW_BYTES = 4 << 20;

/** How long to wait for the link to notice a broken connection, in milliseconds. */
const PAUSE_MS = 50;

interface Queued {
	readonly subject: string;
	readonly payload: Uint8Array;
	readonly reply: string | undefined;
	readonly since: number;
}

/** See the file comment. */
export class Outbox {
	readonly lost: LostCounts = {
		expired: 0,
		unconfirmed: 0,
		over_server_limit: 0,
		publish_failed: 0,
		closed: 0,
	};

	private queue: (Queued | undefined)[] = [];
	private head = 0;
	private queuedBytes = 0;
	/** Handed over; `covered` by the round in progress, `fresh` since. */
	private covered = { messages: 0, bytes: 0 };
	private fresh = { messages: 0, bytes: 0 };
	private up = false;
	private roundScheduled = false;
	/** Which connection the window belongs to: answers of an older one mean nothing. */
	private generation = 0;
	private pauseTimer: Timer | undefined;
	private idleWaiters: (() => void)[] = [];

	constructor(
		private readonly link: OutboxLink,
		private readonly limits: OutboxLimits,
		private readonly clock: Clock,
	) {}

	/** Messages kept, confirmed ones excluded. */
	get messages(): number {
		return (
			this.queue.length -
			this.head +
			this.covered.messages +
			this.fresh.messages
		);
	}

	/** Bytes kept, confirmed ones excluded. */
	get bytes(): number {
		return this.queuedBytes + this.covered.bytes + this.fresh.bytes;
	}

	/** Takes a message, with a subject for answers where one is given, or returns false when that would exceed a limit. */
	offer(subject: string, payload: Uint8Array, reply?: string): boolean {
		if (
			this.messages >= this.limits.maxMessages ||
			this.bytes + payload.byteLength > this.limits.maxBytes
		)
			return false;
		this.queue.push({ subject, payload, reply, since: this.clock.now() });
		this.queuedBytes += payload.byteLength;
		this.pump();
		return true;
	}

	linkUp(): void {
		this.up = true;
		this.pump();
	}

	linkDown(): void {
		this.pauseTimer?.cancel();
		this.up = false;
		this.generation++;
		this.lost.unconfirmed += this.covered.messages + this.fresh.messages;
		this.covered = { messages: 0, bytes: 0 };
		this.fresh = { messages: 0, bytes: 0 };
		this.roundScheduled = false;
		// Nothing more can be confirmed now; whoever waits for it must not wait for a reconnect.
		this.wake();
	}

	/** Resolves when everything was confirmed, or when the link goes down. */
	async idle(): Promise<void> {
		if (!this.up || this.messages === 0) return;
		await new Promise<void>((resolve) => this.idleWaiters.push(resolve));
	}

	/** Forgets everything. */
	clear(): void {
		this.pauseTimer?.cancel();
		this.generation++;
		this.up = false;
		this.lost.closed += this.queue.length - this.head;
		this.queue = [];
		this.head = 0;
		this.queuedBytes = 0;
		this.wake();
	}

	private pump(): void {
		const oldest = this.clock.now() - this.limits.maxAgeMs;
		while (this.up && this.head < this.queue.length) {
			if (this.covered.bytes + this.fresh.bytes >= WINDOW_BYTES) break;
			const next = this.take();
			if (next.since < oldest) this.lost.expired++;
			else if (next.payload.byteLength > this.link.maxPayload)
				this.lost.over_server_limit++;
			else if (!this.link.publish(next.subject, next.payload, next.reply))
				this.lost.publish_failed++;
			else {
				this.fresh.messages++;
				this.fresh.bytes += next.payload.byteLength;
			}
		}
		this.startRound();
		if (this.messages === 0) this.wake();
	}

	private take(): Queued {
		const next = this.queue[this.head] as Queued;
		this.queue[this.head++] = undefined;
		this.queuedBytes -= next.payload.byteLength;
		// Amortized: the array is cut once more than half of it is spent.
		if (this.head * 2 > this.queue.length) {
			this.queue = this.queue.slice(this.head);
			this.head = 0;
		}
		return next;
	}

	/** One round at a time: under load a PING covers everything since the last one, so rounds do not add traffic. */
	private startRound(): void {
		if (
			!this.up ||
			this.roundScheduled ||
			this.covered.messages > 0 ||
			this.fresh.messages === 0
		)
			return;
		this.roundScheduled = true;
		const { generation } = this;
		// A microtask later, so that all messages of one turn share a round and a write.
		queueMicrotask(() => {
			if (generation !== this.generation) return;
			this.roundScheduled = false;
			this.covered = this.fresh;
			this.fresh = { messages: 0, bytes: 0 };
			void this.link.flushed().then((confirmed) => {
				if (generation !== this.generation) return;
				if (!confirmed) this.lost.unconfirmed += this.covered.messages;
				this.covered = { messages: 0, bytes: 0 };
				if (confirmed) this.pump();
				else this.pause();
			});
		});
	}

	/** The connection broke and the link does not know yet: what is queued must not be poured into it. */
	private pause(): void {
		const { generation } = this;
		this.up = false;
		this.wake();
		this.pauseTimer = this.clock.schedule(PAUSE_MS, () => {
			if (generation !== this.generation) return;
			this.up = true;
			this.pump();
		});
	}

	private wake(): void {
		const waiters = this.idleWaiters;
		this.idleWaiters = [];
		for (const wake of waiters) wake();
	}
}
