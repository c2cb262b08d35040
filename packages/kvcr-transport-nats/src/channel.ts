/** The control channel itself; see `subjects.ts` for what it publishes where. */
import { randomBytes } from "node:crypto";
import {
	AlreadyStartedError,
	ClosedError,
	type ControlChannel,
	type ControlChannelStats,
	type ControlReceiver,
	callOut,
	InvalidArgumentError,
	MAX_CONTROL_MESSAGE_BYTES,
} from "kvcr-core";
import { within } from "./deadline.js";
import { dial } from "./dial.js";
import { Dispatch } from "./dispatch.js";
import { reasonOf } from "./errors.js";
import { Intake } from "./intake.js";
import { Link } from "./link.js";
import { linkOf } from "./link-of.js";
import type { LinkSubscription } from "./link-types.js";
import {
	type NatsControlChannelOptions,
	type ResolvedOptions,
	resolveOptions,
} from "./options.js";
import { type LostCounts, Outbox } from "./outbox.js";
import { Announcer } from "./presence-announcer.js";
import { DEFAULT_PREFIX, SubjectSpace } from "./subjects.js";

/** Counters of a {@link NatsControlChannel}. */
export interface NatsControlChannelStats extends ControlChannelStats {
	/** Accepted messages that certainly or possibly were not delivered, by reason. */
	readonly lost: Readonly<LostCounts>;
	/** Messages accepted and not yet confirmed by the server. */
	readonly queuedMessages: number;
	/** Bytes accepted and not yet confirmed by the server. */
	readonly queuedBytes: number;
	/** Whether there is a connection to a server now. */
	readonly connected: boolean;
	/** Times the connection came back after a loss. */
	readonly reconnects: number;
	/** Publications the server refused for lack of permission. It does not say which. */
	readonly permissionViolations: number;
}

/** Code of what the server says about a message that nobody subscribes to. */
const NOBODY_THERE = 503;

/** `new` → `starting` → `open` → `closing` → `closed`; a failed start goes back to `new`. */
type ChannelState = "new" | "starting" | "open" | "closing" | "closed";

type Refusal =
	| "not_started"
	| "closed"
	| "not_bytes"
	| "invalid_endpoint"
	| "too_large"
	| "over_server_limit"
	| "connection_closed"
	| "queue_full";

/**
 * A {@link ControlChannel} over NATS.
 *
 * The endpoint is `nats://<prefix>.<peer>`. Messages go at most once; one sender's messages keep their order, as NATS
 * keeps that of one connection. (While a sender fails over from a server that hangs, but still lives, what that server
 * had accepted may be delivered late, after what was sent over the new one.) While there is no connection messages wait
 * in a bounded queue; `send` returns false when it is full, or when a message exceeds the server's `max_payload`.
 */
export class NatsControlChannel implements ControlChannel {
	/** Name of this peer below the prefix. */
	readonly peer: string;
	/** Subject prefix of the cluster. */
	readonly prefix: string;

	private readonly address: string;
	private readonly subjects: SubjectSpace;
	private readonly options: ResolvedOptions;
	private readonly link: Link;
	private readonly outbox: Outbox;
	private readonly announcer: Announcer | undefined;
	private readonly borrowed: boolean;
	private state: ChannelState = "new";
	private advertised: string | undefined;
	private receive: ControlReceiver | undefined;
	private readonly intake: Intake;
	private readonly dispatch: Dispatch;
	private returns: LinkSubscription | undefined;
	private closing: Promise<void> | undefined;
	private sent = 0;
	private received = 0;
	private readonly refused: Record<string, number> = {};
	private readonly dropped: Record<string, number> = {};

	/** @throws InvalidEndpointError for an unusable peer or prefix, InvalidArgumentError for any other option. */
	constructor(options: NatsControlChannelOptions = {}) {
		const operation = "NatsControlChannel";
		this.options = resolveOptions(options, operation);
		this.subjects = new SubjectSpace(
			options.prefix ?? DEFAULT_PREFIX,
			operation,
		);
		this.prefix = this.subjects.prefix;
		this.peer = options.peer ?? `p-${randomBytes(12).toString("hex")}`;
		this.address = this.subjects.endpointOf(this.peer, operation);

		const { clock, logger, connectTimeoutMs } = this.options;
		const { connection, connect } = options;
		this.borrowed = connection !== undefined;
		this.link = new Link(
			connection !== undefined
				? { kind: "borrowed", connection }
				: {
						kind: "own",
						dial: (timeoutMs, signal) =>
							dial(
								{ name: `kvcr ${this.peer}`, ...connect },
								timeoutMs,
								clock,
								signal,
							),
					},
			clock,
			logger,
			connectTimeoutMs,
		);
		linkOf.set(this, this.link);
		this.outbox = new Outbox(
			this.link,
			{
				maxMessages: this.options.maxQueuedMessages,
				maxBytes: this.options.maxQueuedBytes,
				maxAgeMs: this.options.maxQueuedMs,
			},
			clock,
		);
		this.dispatch = new Dispatch({
			subjects: this.subjects,
			peer: this.peer,
			clock,
			offer: (subject, payload, stamp) =>
				this.outbox.offer(subject, payload, stamp),
		});
		this.intake = new Intake({
			subjects: this.subjects,
			peer: this.peer,
			clock,
			subscribe: (subject, handler, how) =>
				this.link.subscribe(subject, handler, how),
			deliver: (payload) => this.deliver(payload),
			dropped: (reason) => count(this.dropped, reason),
			heard: (sender) => this.dispatch.heard(sender),
		});
		this.link.observe({
			linkUp: () => this.outbox.linkUp(),
			linkDown: () => this.outbox.linkDown(),
			publishRefused: (subject) => {
				if (this.subjects.isFrom(this.peer, subject)) this.dispatch.forbidden();
			},
		});
		if (this.options.announceIntervalMs > 0) {
			this.announcer = new Announcer(
				this.link,
				this.subjects,
				this.peer,
				this.options.announceIntervalMs,
				clock,
			);
		}
	}

	get endpoint(): string | undefined {
		return this.advertised;
	}

	/** Subject of this peer's hints, for `listenForHints`. */
	get hintSubject(): string {
		return this.subjects.hintsOf(this.peer);
	}

	/**
	 * Connects, subscribes and waits until the server confirmed.
	 * @throws AlreadyStartedError on a second call, ClosedError after `close`, NatsConnectionError when no server can be
	 * used in time, NatsPermissionError when the server forbids reading this peer's subject. After the last two it may be
	 * called again.
	 */
	async start(receive: ControlReceiver): Promise<void> {
		const operation = "NatsControlChannel.start";
		if (typeof receive !== "function")
			throw new InvalidArgumentError(
				operation,
				"receive",
				receive,
				"a function",
			);
		if (this.state === "closing" || this.state === "closed")
			throw new ClosedError(operation, "the channel");
		if (this.state !== "new")
			throw new AlreadyStartedError(operation, "the channel");
		this.state = "starting";
		this.receive = receive;
		const { each } = this.intake.open();
		this.returns = this.link.subscribe(
			this.subjects.stampsOf(this.peer),
			({ subject, headers }) => {
				if (headers?.code === NOBODY_THERE) this.dispatch.returned(subject);
			},
			{ optional: true, refused: () => this.dispatch.withoutReturns() },
		);
		try {
			this.announcer?.listen();
			await this.link.start(operation);
		} catch (error) {
			this.intake.close();
			this.returns.unsubscribe();
			this.announcer?.stop(false);
			if (this.isEnding()) throw new ClosedError(operation, "the channel");
			this.state = "new";
			throw error;
		}
		if (this.isEnding()) throw new ClosedError(operation, "the channel");
		// Permissions may be older than these subjects: then everything goes over the one for anybody.
		if (each.refusal !== undefined) this.intake.openToAnybodyOnly();
		this.state = "open";
		this.advertised = this.address;
		this.announcer?.begin();
	}

	send(endpoint: string, message: Uint8Array): boolean {
		const refusal = this.refusal(endpoint, message);
		if (refusal !== undefined) {
			count(this.refused, refusal);
			return false;
		}
		this.sent++;
		return true;
	}

	/**
	 * When this was said of one sender often enough, has the server drop most of what it sends: what is on the way would be in
	 * front of everybody else's messages.
	 */
	slowDown(): void {
		this.intake.slowDown();
	}

	stats(): NatsControlChannelStats {
		return {
			sent: this.sent,
			received: this.received,
			refused: { ...this.refused },
			dropped: { ...this.dropped },
			lost: { ...this.outbox.lost },
			queuedMessages: this.outbox.messages,
			queuedBytes: this.outbox.bytes,
			connected: this.link.state === "up",
			reconnects: this.link.reconnects,
			permissionViolations: this.link.permissionViolations,
		};
	}

	close(): Promise<void> {
		this.closing ??= this.shutDown();
		return this.closing;
	}

	private async shutDown(): Promise<void> {
		const wasOpen = this.state === "open";
		this.state = "closing";
		this.receive = undefined;
		this.intake.close();
		const { clock, drainTimeoutMs } = this.options;
		this.announcer?.stop(wasOpen);
		if (wasOpen && this.link.state === "up") {
			// The last announcement does not go through the outbox: a round of its own covers it.
			const drained = this.outbox.idle().then(() => this.link.flushed());
			await within(clock, drainTimeoutMs, drained);
		}
		// Only now: what the server returned of the last messages has been sent once more by then.
		this.returns?.unsubscribe();
		this.outbox.clear();
		await this.link.close(drainTimeoutMs);
		linkOf.delete(this);
		this.state = "closed";
	}

	private refusal(endpoint: string, message: Uint8Array): Refusal | undefined {
		if (this.state === "new" || this.state === "starting") return "not_started";
		if (this.state !== "open") return "closed";
		if (!(message instanceof Uint8Array)) return "not_bytes";
		const peer = this.subjects.peerOf(endpoint);
		if (peer === undefined) return "invalid_endpoint";
		if (message.byteLength > MAX_CONTROL_MESSAGE_BYTES) return "too_large";
		if (message.byteLength > this.link.maxPayload) return "over_server_limit";
		if (this.borrowed && this.link.gone) return "connection_closed";
		return this.dispatch.send(peer, message) ? undefined : "queue_full";
	}

	private deliver(payload: Uint8Array): void {
		const { receive } = this;
		if (receive === undefined) return;
		if (payload.byteLength > MAX_CONTROL_MESSAGE_BYTES) {
			count(this.dropped, "too_large");
			this.slowDown();
			return;
		}
		this.received++;
		// A copy: the client's bytes are a view of a larger network buffer.
		const copy = new Uint8Array(payload);
		callOut(
			() => receive(copy),
			(error) => {
				count(this.dropped, "receiver_failed");
				this.options.logger.error(
					{ reason: reasonOf(error) },
					"the receiver of control messages failed",
				);
			},
		);
	}

	private isEnding(): boolean {
		return this.state === "closing" || this.state === "closed";
	}
}

function count(counters: Record<string, number>, reason: string): void {
	counters[reason] = (counters[reason] ?? 0) + 1;
}
