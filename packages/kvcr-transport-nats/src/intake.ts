/**
 * What comes in: over the subject that is open to anybody, and over subjects of which each sender has its own. Both are
 * gates, so that a flood ends at the server. When the second one is narrow, every sender that does not flood gets a
 * subscription of its own beside it, and notices nothing. What comes twice by that is handed over once: messages are
 * numbered.
 */
import type { Clock } from "kvcr-core";
import { Excess } from "./excess.js";
import { Gate } from "./gate.js";
import type { LinkSubscription, SubscribeOptions } from "./link-types.js";
import type { NatsLikeMessage } from "./nats-like.js";
import type { Stamp, SubjectSpace } from "./subjects.js";

/** Senders remembered; the one heard of longest ago is forgotten first. */
const MAX_SENDERS = 4_096;

/**
 * So many messages within a second that somebody repeats over the subject for anybody are a flood: twice what one sender
 * keeps for that (dispatch.ts).
 */
const REPEATS = 8_192;

/** How long a sender that flooded gets no subscription of its own, in milliseconds. */
const SHUN_MS = 30_000;

/** Why a message is not handed over: its subject names no peer, or it came before. */
export type IntakeDropReason = "bad_sender" | "repeated";

/** What the intake needs. */
export interface IntakeOptions {
	readonly subjects: SubjectSpace;
	/** Name of this peer. */
	readonly peer: string;
	readonly clock: Clock;
	readonly subscribe: (
		subject: string,
		handler: (message: NatsLikeMessage) => void,
		options: SubscribeOptions,
	) => LinkSubscription;
	/** Takes each message once. */
	readonly deliver: (payload: Uint8Array) => void;
	/** Told of each message that is not handed over, but for the copies this intake causes itself. */
	readonly dropped: (reason: IntakeDropReason) => void;
	/** A peer was heard over its own subject. */
	readonly heard: (sender: string) => void;
}

interface Sender {
	readonly excess: Excess;
	/** Of its last message. */
	last: Stamp | undefined;
	/** The subscription over which a copy of that may follow, if there are two. */
	copyOver: "own" | "gate" | undefined;
	/** While the gate is narrow. */
	own: LinkSubscription | undefined;
	shunnedUntil: number;
}

/** See the file comment. */
export class Intake {
	private readonly anybody: Gate;
	private readonly each: Gate;
	private readonly excess: Excess;
	private readonly repeats: Excess;
	/** Of subjects that name no peer. */
	private readonly nameless: Excess;
	/** By name, the one heard of longest ago first. */
	private readonly senders = new Map<string, Sender>();
	/** Whose message is being handed over. */
	private current: Sender | undefined;

	constructor(private readonly options: IntakeOptions) {
		const { clock, subjects, peer, subscribe } = options;
		this.excess = new Excess(clock);
		this.repeats = new Excess(clock, REPEATS);
		this.nameless = new Excess(clock);
		this.anybody = new Gate({
			clock,
			subscribe: (handler, how) =>
				subscribe(subjects.controlOf(peer), handler, how),
			handle: (message) => this.fromAnybody(message),
		});
		this.each = new Gate({
			clock,
			subscribe: (handler, how) =>
				subscribe(subjects.fromOf(peer, "*"), handler, {
					...how,
					optional: true,
				}),
			handle: (message) => this.fromOne(message, false),
			narrowed: () => {
				for (const [name, sender] of this.senders) this.serve(name, sender);
			},
			opened: () => {
				for (const sender of this.senders.values()) this.endOwn(sender);
			},
		});
	}

	/** Senders that have a subscription of their own. */
	get served(): number {
		let count = 0;
		for (const { own } of this.senders.values()) if (own !== undefined) count++;
		return count;
	}

	/** Whether a flood is being kept out. */
	get narrow(): boolean {
		return [this.anybody, this.each].some(
			({ state }) => state === "shut" || state === "ajar",
		);
	}

	/** Subscribes; `each` is the subscription that permissions from before it may forbid. */
	open(): {
		readonly anybody: LinkSubscription;
		readonly each: LinkSubscription;
	} {
		return { anybody: this.anybody.open(), each: this.each.open() };
	}

	/** Does without subjects of single senders: the server does not allow them. */
	openToAnybodyOnly(): void {
		this.each.close();
	}

	/** The message being handed over is more than its sender's due. */
	slowDown(): void {
		const { current } = this;
		if (current === undefined) {
			if (this.excess.note()) this.anybody.narrow();
			return;
		}
		this.exceed(current);
	}

	/** Unsubscribes from everything. */
	close(): void {
		this.anybody.close();
		this.each.close();
		for (const { own } of this.senders.values()) own?.unsubscribe();
		this.senders.clear();
	}

	private fromAnybody(message: NatsLikeMessage): boolean {
		// A sender that did not find the other subject repeats itself here. Who it is, is only its word: nothing is noted.
		const { subjects, deliver, dropped } = this.options;
		const name = subjects.stampedBy(message.reply);
		const last = name === undefined ? undefined : this.senders.get(name)?.last;
		if (
			name !== undefined &&
			isOld(subjects.parseStamp(name, message.reply), last)
		) {
			dropped("repeated");
			if (this.repeats.note()) this.anybody.narrow();
		} else deliver(message.data);
		return true;
	}

	/** False when its sender is served beside the gate. */
	private fromOne(message: NatsLikeMessage, isOwn: boolean): boolean {
		const { subjects, peer, deliver, heard, dropped } = this.options;
		const name = subjects.senderOf(peer, message.subject);
		if (name === undefined) {
			dropped("bad_sender");
			if (this.nameless.note()) this.each.narrow();
			return true;
		}
		const sender = this.sender(name);
		const served = sender.own !== undefined;
		const stamp = subjects.parseStamp(name, message.reply);
		// Without a number there is no telling it from its copy.
		if (stamp === undefined && served && !isOwn) return false;
		if (isOld(stamp, sender.last)) {
			const over = isOwn ? "own" : "gate";
			if (stamp?.number === sender.last?.number && over === sender.copyOver)
				sender.copyOver = undefined;
			else {
				dropped("repeated");
				this.exceed(sender);
			}
			return !served;
		}
		if (stamp !== undefined) sender.last = stamp;
		sender.copyOver = isOwn ? "gate" : "own";
		heard(name);
		if (!served && this.each.state !== "open") this.serve(name, sender);
		this.current = sender;
		deliver(message.data);
		this.current = undefined;
		return !served;
	}

	/** A message of a sender was more than its due. */
	private exceed(sender: Sender): void {
		if (!sender.excess.note()) return;
		sender.shunnedUntil = this.options.clock.now() + SHUN_MS;
		this.endOwn(sender);
		this.each.narrow();
	}

	private sender(name: string): Sender {
		let sender = this.senders.get(name);
		if (sender === undefined) {
			sender = {
				excess: new Excess(this.options.clock),
				last: undefined,
				copyOver: undefined,
				own: undefined,
				shunnedUntil: Number.NEGATIVE_INFINITY,
			};
			if (this.senders.size >= MAX_SENDERS) this.forgetOldest();
		} else this.senders.delete(name);
		this.senders.set(name, sender);
		return sender;
	}

	private forgetOldest(): void {
		for (const [name, sender] of this.senders) {
			this.endOwn(sender);
			this.senders.delete(name);
			return;
		}
	}

	private serve(name: string, sender: Sender): void {
		if (sender.own !== undefined || this.each.state === "closed") return;
		if (this.options.clock.now() < sender.shunnedUntil) return;
		const { subjects, peer, subscribe } = this.options;
		sender.own = subscribe(
			subjects.fromOf(peer, name),
			(message) => this.fromOne(message, true),
			{ optional: true },
		);
	}

	private endOwn(sender: Sender): void {
		sender.own?.drain();
		sender.own = undefined;
	}
}

/** Whether a message is a copy of one that came, or was overtaken. */
function isOld(stamp: Stamp | undefined, last: Stamp | undefined): boolean {
	return (
		stamp !== undefined &&
		last !== undefined &&
		stamp.run === last.run &&
		stamp.number <= last.number
	);
}
