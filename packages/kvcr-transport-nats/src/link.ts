/**
 * A connection to NATS that outlives single connections: it knows whether it is up, keeps its subscriptions alive over
 * reconnects, and replaces a connection of its own that the client gave up. Over a caller's connection it does the same
 * but never closes it.
 */
import type { Clock, Logger, Timer } from "kvcr-core";
import { AlreadyStartedError, ClosedError } from "kvcr-core";
import { LATE, within } from "./deadline.js";
import type { Dialed } from "./dial.js";
import {
	NatsConnectionError,
	NatsPermissionError,
	reasonOf,
} from "./errors.js";
import { Registered } from "./link-subscription.js";
import {
	type LinkObserver,
	type LinkSource,
	type LinkState,
	type LinkSubscription,
	MOVES,
	type SubscribeOptions,
} from "./link-types.js";
import {
	type NatsLike,
	type NatsLikeMessage,
	refusedOperation,
	statusKind,
	stopStatus,
} from "./nats-like.js";

/** How long between attempts to renew what the server refused or the client gave up, in milliseconds. */
const RETRY_MS = { first: 250, longest: 5_000 } as const;

/** See the file comment. */
export class Link {
	private current: LinkState = "idle";
	private connection: NatsLike | undefined;
	private dialed: Dialed | undefined;
	private statuses: AsyncIterable<{ readonly type: string }> | undefined;
	private readonly observers = new Set<LinkObserver>();
	private readonly subscriptions = new Set<Registered>();
	private readonly ending = new AbortController();
	private retry: Timer | undefined;
	private retryMs: number = RETRY_MS.first;
	private lastMaxPayload = 1 << 20;
	/** Times the link came up again after being down. */
	reconnects = 0;
	/** Publications the server refused for lack of permission (it says so without naming the message). */
	permissionViolations = 0;

	constructor(
		private readonly source: LinkSource,
		private readonly clock: Clock,
		private readonly logger: Logger,
		private readonly connectTimeoutMs: number,
	) {}

	get state(): LinkState {
		return this.current;
	}

	/** True when the client closed the connection for good. */
	get gone(): boolean {
		return this.connection?.isClosed() ?? false;
	}

	/** The server's limit for one message, in bytes; the last one known while down. */
	get maxPayload(): number {
		const now = this.connection?.info?.max_payload;
		if (now !== undefined) this.lastMaxPayload = now;
		return this.lastMaxPayload;
	}

	/**
	 * Connects and makes the subscriptions registered so far.
	 * @throws NatsConnectionError, NatsPermissionError, AlreadyStartedError, ClosedError
	 */
	async start(operation: string): Promise<void> {
		if (this.current === "closed")
			throw new ClosedError(operation, "the channel");
		if (this.current !== "idle")
			throw new AlreadyStartedError(operation, "the channel");
		this.move("connecting");
		try {
			if (this.source.kind === "own") {
				this.adopt(
					await this.source.dial(this.connectTimeoutMs, this.ending.signal),
				);
			} else {
				this.attach(this.source.connection);
			}
			await this.confirm(operation);
		} catch (error) {
			await this.abandon();
			if (this.state === "closed")
				throw new ClosedError(operation, "the channel");
			this.move("idle");
			throw error;
		}
		if (this.state === "closed")
			throw new ClosedError(operation, "the channel");
		// A loss during the confirmation has already moved the link on.
		if (this.state === "connecting") this.comeUp();
	}

	/** Adds an observer; returns the way to remove it. */
	observe(observer: LinkObserver): () => void {
		this.observers.add(observer);
		return () => this.observers.delete(observer);
	}

	/** Registers a subscription; it becomes live with the connection. The handler must not throw. */
	subscribe(
		subject: string,
		handler: (message: NatsLikeMessage) => void,
		options: SubscribeOptions = {},
	): LinkSubscription {
		const entry = new Registered(subject, handler, options);
		this.subscriptions.add(entry);
		if (this.current === "up") this.renew(entry);
		return {
			subject,
			get refusal() {
				return entry.refusal;
			},
			unsubscribe: () => {
				this.subscriptions.delete(entry);
				entry.drop();
			},
			drain: () => {
				this.subscriptions.delete(entry);
				entry.drain();
			},
		};
	}

	/**
	 * Waits until the server has processed everything so far, so that a refused subscription is known.
	 * @throws NatsPermissionError when it (or, without argument, any) is refused, NatsConnectionError when there is no
	 * answer in time.
	 */
	async confirm(
		operation: string,
		subscription?: LinkSubscription,
	): Promise<void> {
		const { connection } = this;
		if (connection === undefined || connection.isClosed())
			throw new NatsConnectionError(operation, "the connection is closed");
		let reason: unknown;
		try {
			const answer = this.untilClosed(connection.flush());
			if ((await within(this.clock, this.connectTimeoutMs, answer)) === LATE)
				reason = new Error(`no answer within ${this.connectTimeoutMs} ms`);
		} catch (error) {
			reason = error ?? new Error("the connection was lost");
		}
		if (reason !== undefined)
			throw new NatsConnectionError(
				operation,
				`the server did not answer: ${reasonOf(reason)}`,
				{ cause: reason },
			);
		const concerned = subscription
			? [subscription]
			: [...this.subscriptions].filter(({ options }) => !options.optional);
		for (const { subject, refusal } of concerned) {
			if (refusal !== undefined)
				throw new NatsPermissionError(operation, subject, { cause: refusal });
		}
	}

	/** Publishes now, with a subject for answers where one is given. `false` while not up, or when the client refuses. */
	publish(subject: string, payload: Uint8Array, reply?: string): boolean {
		if (this.current !== "up" || this.connection === undefined) return false;
		try {
			if (reply === undefined) this.connection.publish(subject, payload);
			else this.connection.publish(subject, payload, { reply });
			return true;
		} catch {
			return false;
		}
	}

	/** Resolves `true` when the server has taken everything published before, `false` when the connection was lost. */
	async flushed(): Promise<boolean> {
		const { connection } = this;
		if (this.current !== "up" || connection === undefined) return false;
		try {
			await connection.flush();
			return this.connection === connection;
		} catch {
			return false;
		}
	}

	/** Ends subscriptions, timers and a connection of its own. Bounded; never rejects. */
	async close(timeoutMs: number): Promise<void> {
		if (this.current === "closed") return;
		const wasUp = this.current === "up";
		this.move("closed");
		this.ending.abort();
		if (wasUp) this.tell("linkDown");
		await this.abandon(timeoutMs);
		this.subscriptions.clear();
		this.observers.clear();
	}

	/** A client that is closed while it waits for an answer may leave that open. */
	private async untilClosed(answer: Promise<void>): Promise<void> {
		const { signal } = this.ending;
		let closed = () => {};
		const ended = new Promise<never>((_resolve, reject) => {
			closed = () => reject(new Error("the channel was closed meanwhile"));
			signal.addEventListener("abort", closed, { once: true });
		});
		try {
			if (signal.aborted) closed();
			await Promise.race([answer, ended]);
		} finally {
			signal.removeEventListener("abort", closed);
		}
	}

	private async abandon(timeoutMs = 1_000): Promise<void> {
		this.retry?.cancel();
		this.retry = undefined;
		for (const entry of this.subscriptions) entry.drop();
		if (this.statuses !== undefined) stopStatus(this.statuses);
		this.statuses = undefined;
		this.connection = undefined;
		const { dialed } = this;
		this.dialed = undefined;
		await dialed?.end(timeoutMs);
	}

	private adopt(dialed: Dialed): void {
		if (this.current === "closed") {
			// Nobody wants it any more.
			void dialed.end(0);
			return;
		}
		this.dialed = dialed;
		this.attach(dialed.connection);
	}

	private attach(connection: NatsLike): void {
		this.connection = connection;
		const statuses = connection.status();
		this.statuses = statuses;
		void this.follow(connection, statuses);
		for (const entry of this.subscriptions) this.renew(entry);
	}

	private async follow(
		connection: NatsLike,
		statuses: AsyncIterable<{ readonly type: string }>,
	): Promise<void> {
		try {
			for await (const status of statuses) {
				if (this.connection !== connection) return;
				switch (statusKind(status)) {
					case "disconnect":
						this.goDown();
						break;
					case "reconnect":
						this.comeUp();
						break;
					case "stale":
						this.goDown();
						this.dialed?.cut();
						break;
					case "permission":
						this.refused(status);
						break;
					case "other":
						break;
				}
			}
		} catch (error) {
			this.logger.warn(
				{ reason: reasonOf(error) },
				"the NATS client stopped reporting its state",
			);
		}
		// Both clients end the iteration when, and only when, the connection is closed for good.
		this.lost(connection);
	}

	private comeUp(): void {
		if (this.current === "closed" || this.current === "up") return;
		const again = this.current === "down";
		this.move("up");
		if (again) this.reconnects++;
		this.retryMs = RETRY_MS.first;
		for (const entry of this.subscriptions) if (!entry.live) this.renew(entry);
		this.tell("linkUp");
	}

	private goDown(): void {
		if (this.current !== "up") return;
		this.move("down");
		this.tell("linkDown");
	}

	/** The client gave the connection up for good. One of our own is replaced. */
	private lost(connection: NatsLike): void {
		if (this.connection !== connection || this.current === "closed") return;
		this.goDown();
		if (this.current !== "down") return;
		this.logger.warn({}, "the NATS connection was closed");
		if (this.source.kind === "own") this.retryLater();
	}

	private async redial(): Promise<void> {
		if (this.source.kind !== "own") return;
		const before = this.dialed;
		this.dialed = undefined;
		this.connection = undefined;
		await before?.end(0);
		try {
			this.adopt(
				await this.source.dial(this.connectTimeoutMs, this.ending.signal),
			);
			this.comeUp();
		} catch (error) {
			if (this.state !== "down") return;
			this.logger.warn({ reason: reasonOf(error) }, "NATS is not reachable");
			this.retryLater();
		}
	}

	private renew(entry: Registered): void {
		if (this.connection === undefined) return;
		entry.renew(this.connection, (reason) => {
			this.logger.warn(
				{ subject: entry.subject, reason: reasonOf(reason) },
				"the NATS server ended a subscription",
			);
			if (entry.options.optional) {
				this.subscriptions.delete(entry);
				entry.options.refused?.();
			} else this.retryLater();
		});
	}

	/** Arms the one retry timer, with a growing delay. What has to be retried is decided when it fires. */
	private retryLater(): void {
		if (this.retry !== undefined || this.current === "closed") return;
		this.retry = this.clock.schedule(this.retryMs, () => {
			this.retry = undefined;
			const gone = this.connection === undefined || this.connection.isClosed();
			if (this.current === "down" && gone) void this.redial();
			else if (this.current === "up") {
				for (const each of this.subscriptions) if (!each.live) this.renew(each);
			}
		});
		this.retryMs = Math.min(this.retryMs * 2, RETRY_MS.longest);
	}

	private refused(status: { readonly type: string }): void {
		const refusal = refusedOperation(status);
		// Subscriptions hear of it themselves.
		if (refusal?.operation === "subscription") return;
		this.permissionViolations++;
		if (refusal === undefined) return;
		for (const observer of this.observers)
			observer.publishRefused?.(refusal.subject);
	}

	private tell(event: "linkUp" | "linkDown"): void {
		for (const observer of this.observers) observer[event]();
	}

	private move(next: LinkState): void {
		if (!MOVES[this.current].includes(next))
			throw new Error(`link: impossible transition ${this.current} → ${next}`);
		this.current = next;
	}
}
