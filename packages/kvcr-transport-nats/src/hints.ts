/**
 * Hints over a subject: a router publishes an envelope to a worker's hint subject, and the worker submits it without a
 * carrying request, so that placement starts at once.
 *
 * A message with a reply subject is answered with `+OK` once the envelope was accepted, or with `-ERR <reason>`; that is
 * about the envelope, not about what becomes of the blocks.
 */
import {
	checkObject,
	InvalidArgumentError,
	type Logger,
	MAX_CONTROL_MESSAGE_BYTES,
	systemClock,
} from "kvcr-core";
import type { NatsControlChannel } from "./channel.js";
import { reasonOf } from "./errors.js";
import type { Link } from "./link.js";
import { linkFor } from "./link-of.js";
import type { NatsLike, NatsLikeMessage } from "./nats-like.js";
import { boundedInteger, loggerOf } from "./options.js";
import { isPlainSubject } from "./subjects.js";

/** Options of {@link listenForHints}. */
export interface ListenForHintsOptions {
	/** Subject to listen on. @default the channel's `hintSubject`; required over a connection */
	subject?: string;
	/**
	 * Takes the text of one envelope, for example `(text) => kvcr.submitHint(text)`. Throwing, or a promise that rejects,
	 * means that it was refused.
	 */
	submit: (envelope: string) => unknown;
	/**
	 * Answers go only to reply subjects with this lead, so that a hint cannot make the worker publish elsewhere.
	 * @default "_INBOX"
	 */
	replyPrefix?: string;
	/**
	 * Most envelopes whose `submit` has not settled; further ones are refused.
	 * @default 64
	 */
	maxPending?: number;
	/** @default silentLogger */
	logger?: Logger;
}

/** Counters of a hint listener. All are monotonic. */
export interface HintListenerStats {
	/** Envelopes that `submit` took. */
	readonly accepted: number;
	/** Envelopes refused: `"malformed"` (not text, or too large), `"rejected"` by `submit`, `"busy"`. */
	readonly refused: Readonly<Record<string, number>>;
	/** Replies not sent: `"reply_subject"` outside the allowed lead, `"not_connected"`. */
	readonly unanswered: Readonly<Record<string, number>>;
}

/** A running listener. */
export interface HintListener {
	/** A copy of the counters, as they are now. */
	stats(): HintListenerStats;
	/** Ends it; `submit` is not called any more. The connection or channel stays open. */
	close(): Promise<void>;
}

/** Longest reason in a reply, in characters. */
const MAX_REASON = 500;

/**
 * Takes hint envelopes from a subject. A bad one is counted and answered, and never stops the listener.
 * @throws InvalidArgumentError, NatsConnectionError, NatsPermissionError
 */
export async function listenForHints(
	source: NatsControlChannel | NatsLike,
	options: ListenForHintsOptions,
): Promise<HintListener> {
	const operation = "listenForHints";
	checkObject(operation, "source", source);
	checkObject(operation, "options", options);
	const subject =
		options.subject ??
		("hintSubject" in source ? source.hintSubject : undefined);
	if (!isPlainSubject(subject))
		throw new InvalidArgumentError(
			operation,
			"subject",
			subject,
			"a subject of letters, digits, - and _, without wildcards",
		);
	if (typeof options.submit !== "function")
		throw new InvalidArgumentError(
			operation,
			"submit",
			options.submit,
			"a function",
		);
	const replyPrefix = options.replyPrefix ?? "_INBOX";
	if (!isPlainSubject(replyPrefix))
		throw new InvalidArgumentError(
			operation,
			"replyPrefix",
			replyPrefix,
			"a subject without wildcards",
		);
	const maxPending = boundedInteger(
		options.maxPending,
		64,
		1,
		1 << 16,
		operation,
		"maxPending",
	);
	const logger = loggerOf(options.logger, operation);
	const { link, own } = await linkFor(source, operation, systemClock, logger);
	const intake = new HintIntake(
		link,
		options.submit,
		`${replyPrefix}.`,
		maxPending,
	);
	const subscription = link.subscribe(subject, (message) =>
		intake.take(message),
	);
	const close = async (): Promise<void> => {
		intake.close();
		subscription.unsubscribe();
		if (own) await link.close(0);
	};
	try {
		await link.confirm(operation, subscription);
	} catch (error) {
		await close();
		throw error;
	}
	return { stats: () => intake.stats(), close };
}

class HintIntake {
	private accepted = 0;
	private pending = 0;
	private closed = false;
	private readonly refused: Record<string, number> = {};
	private readonly unanswered: Record<string, number> = {};
	private readonly decoder = new TextDecoder("utf-8", { fatal: true });

	constructor(
		private readonly link: Link,
		private readonly submit: (envelope: string) => unknown,
		private readonly replyLead: string,
		private readonly maxPending: number,
	) {}

	stats(): HintListenerStats {
		return {
			accepted: this.accepted,
			refused: { ...this.refused },
			unanswered: { ...this.unanswered },
		};
	}

	close(): void {
		this.closed = true;
	}

	take(message: NatsLikeMessage): void {
		if (this.closed) return;
		const { reply } = message;
		if (message.data.byteLength > MAX_CONTROL_MESSAGE_BYTES) {
			this.refuse("malformed", "the envelope is larger than 1 MiB", reply);
			return;
		}
		let text: string;
		try {
			text = this.decoder.decode(message.data);
		} catch {
			this.refuse("malformed", "the envelope is not UTF-8 text", reply);
			return;
		}
		if (this.pending >= this.maxPending) {
			this.refuse("busy", "too many envelopes are being taken", reply);
			return;
		}
		this.pending++;
		void this.run(text, reply);
	}

	private async run(text: string, reply: string | undefined): Promise<void> {
		try {
			// Called before the first await, so that envelopes are submitted in the order of their arrival.
			await this.submit(text);
			this.accepted++;
			this.answer(reply, "+OK");
		} catch (error) {
			this.refuse("rejected", reasonOf(error), reply);
		} finally {
			this.pending--;
		}
	}

	private refuse(
		kind: "malformed" | "rejected" | "busy",
		reason: string,
		reply: string | undefined,
	): void {
		this.refused[kind] = (this.refused[kind] ?? 0) + 1;
		this.answer(reply, `-ERR ${reason.slice(0, MAX_REASON)}`);
	}

	private answer(reply: string | undefined, text: string): void {
		if (reply === undefined || reply === "" || this.closed) return;
		const allowed = reply.startsWith(this.replyLead) && !/[*>\s]/.test(reply);
		if (!allowed) this.leaveUnanswered("reply_subject");
		else if (!this.link.publish(reply, Buffer.from(text)))
			this.leaveUnanswered("not_connected");
	}

	private leaveUnanswered(reason: string): void {
		this.unanswered[reason] = (this.unanswered[reason] ?? 0) + 1;
	}
}
