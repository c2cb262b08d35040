/**
 * Names on the wire: which subject stands for which endpoint, and what a name may look like.
 *
 * ```text
 * <prefix>.<peer>                   control messages for a peer, from anybody   endpoint nats://<prefix>.<peer>
 * <prefix>.<peer>._from.<sender>    control messages for a peer, from one other
 * <prefix>.<peer>._sent.<run>.<n>   the server says: nobody is there for the n-th message of this peer
 * <prefix>.<peer>.hints             hint envelopes for a peer
 * <prefix>._presence                "announce yourselves"
 * <prefix>._presence.<peer>         announcements of a peer
 * ```
 *
 * Names are checked against what is allowed, not against what is known to be dangerous: ASCII letters, digits, `-` and
 * `_`. A wildcard, a separator, white space, a line break of the NATS protocol or a look-alike letter therefore cannot
 * reach the server inside a peer name. An endpoint that came from the network is only ever turned into a subject below
 * this channel's own prefix, so no message can make a worker publish into somebody else's part of the name space.
 */
import { InvalidEndpointError } from "kvcr-core";

/** Longest peer name, and longest token of a prefix, in characters. */
export const MAX_TOKEN_LENGTH = 64;

/** Most tokens in a prefix. */
export const MAX_PREFIX_TOKENS = 8;

/** Prefix used when none is given. */
export const DEFAULT_PREFIX = "kvcr";

/** Scheme of every endpoint of this transport. */
export const SCHEME = "nats://";

/** A token may not begin with `_` (reserved: `_INBOX`, `_presence`) and never contains `$` (the server's own subjects). */
const TOKEN = new RegExp(
	`^[A-Za-z0-9-][A-Za-z0-9_-]{0,${MAX_TOKEN_LENGTH - 1}}$`,
);

const PRESENCE_TOKEN = "_presence";
const FROM_TOKEN = "_from";
const SENT_TOKEN = "_sent";

/** What a stamp looks like behind its token: a run of the sender, and a number that only grows within it. */
const STAMP = /^([A-Za-z0-9_-]{16})\.(\d{1,15})$/;

/** True when `name` can be one peer. */
export function isPeerName(name: unknown): name is string {
	return typeof name === "string" && TOKEN.test(name);
}

/** True when `prefix` can stand in front of peer names: 1 to {@link MAX_PREFIX_TOKENS} tokens joined by dots. */
export function isPrefix(prefix: unknown): prefix is string {
	if (typeof prefix !== "string") return false;
	const tokens = prefix.split(".");
	return (
		tokens.length <= MAX_PREFIX_TOKENS &&
		tokens.every((token) => TOKEN.test(token))
	);
}

/** True when `subject` names one subject in full: allowed tokens only, no wildcard. Used for subjects a caller chooses. */
export function isPlainSubject(subject: unknown): subject is string {
	return (
		typeof subject === "string" &&
		subject.length <= 512 &&
		/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(subject)
	);
}

/** Tells one message of a sender from all others it sends to the same peer. */
export interface Stamp {
	/** A running instance of the sender, as one peer knows it. */
	readonly run: string;
	/** Larger for later messages. */
	readonly number: number;
}

/** The subjects of one prefix. Holds no state but a bounded memory of endpoints already parsed. */
export class SubjectSpace {
	/** The prefix all subjects share. */
	readonly prefix: string;
	/** Subject on which peers are asked to announce themselves. */
	readonly presenceQuery: string;
	/** Pattern that matches the announcements of every peer. */
	readonly presenceOfAll: string;

	/** Recently used endpoints, so that a send costs one look-up. */
	private readonly parsed = new Map<string, string>();

	/** @throws InvalidEndpointError when the prefix is not usable. */
	constructor(prefix: string, operation: string) {
		if (!isPrefix(prefix)) {
			throw new InvalidEndpointError(
				operation,
				typeof prefix === "string" ? `${SCHEME}${prefix}.*` : prefix,
				`${SCHEME}<prefix>.<peer> with a prefix of 1 to ${MAX_PREFIX_TOKENS} dot-separated tokens of letters, digits, "-" and "_" (not leading)`,
			);
		}
		this.prefix = prefix;
		this.presenceQuery = `${prefix}.${PRESENCE_TOKEN}`;
		this.presenceOfAll = `${prefix}.${PRESENCE_TOKEN}.*`;
	}

	/**
	 * The endpoint of a peer.
	 * @throws InvalidEndpointError when the name is not usable.
	 */
	endpointOf(peer: string, operation: string): string {
		if (!isPeerName(peer)) {
			throw new InvalidEndpointError(
				operation,
				typeof peer === "string" ? `${SCHEME}${this.prefix}.${peer}` : peer,
				`${SCHEME}${this.prefix}.<peer> with a peer name of 1 to ${MAX_TOKEN_LENGTH} letters, digits, "-" and "_" (not leading)`,
			);
		}
		return `${SCHEME}${this.prefix}.${peer}`;
	}

	/** The control subject behind an endpoint, or `undefined` for anything that is not a peer below this prefix. */
	subjectOf(endpoint: string): string | undefined {
		const known = this.parsed.get(endpoint);
		if (known !== undefined) return known;
		const lead = `${SCHEME}${this.prefix}.`;
		if (typeof endpoint !== "string" || !endpoint.startsWith(lead))
			return undefined;
		if (!isPeerName(endpoint.slice(lead.length))) return undefined;
		const subject = endpoint.slice(SCHEME.length);
		if (this.parsed.size >= 1024) this.parsed.clear();
		this.parsed.set(endpoint, subject);
		return subject;
	}

	/** The peer behind an endpoint, or `undefined` for anything that is not a peer below this prefix. */
	peerOf(endpoint: string): string | undefined {
		return this.subjectOf(endpoint)?.slice(this.prefix.length + 1);
	}

	/** The subject on which a peer takes control messages of anybody. */
	controlOf(peer: string): string {
		return `${this.prefix}.${peer}`;
	}

	/** The subject on which a peer takes control messages of one other. */
	fromOf(peer: string, sender: string): string {
		return `${this.prefix}.${peer}.${FROM_TOKEN}.${sender}`;
	}

	/** Who sent to a peer by such a subject, or `undefined`. The subject, not the payload, says who speaks. */
	senderOf(peer: string, subject: string): string | undefined {
		const lead = this.fromOf(peer, "");
		if (!subject.startsWith(lead)) return undefined;
		const sender = subject.slice(lead.length);
		return isPeerName(sender) ? sender : undefined;
	}

	/** Whether a subject is that of one sender, at whichever peer. */
	isFrom(sender: string, subject: string): boolean {
		return (
			subject.startsWith(`${this.prefix}.`) &&
			subject.endsWith(`.${FROM_TOKEN}.${sender}`)
		);
	}

	/** The subject that marks one message of a peer. */
	stampOf(peer: string, run: string, number: number): string {
		return `${this.prefix}.${peer}.${SENT_TOKEN}.${run}.${number}`;
	}

	/** Pattern that matches all stamps of a peer. */
	stampsOf(peer: string): string {
		return `${this.prefix}.${peer}.${SENT_TOKEN}.>`;
	}

	/** Whose stamp this is, or `undefined` when it is none. */
	stampedBy(subject: string | undefined): string | undefined {
		if (subject === undefined || !subject.startsWith(`${this.prefix}.`))
			return undefined;
		const [name, token] = subject.slice(this.prefix.length + 1).split(".", 2);
		return token === SENT_TOKEN && isPeerName(name) ? name : undefined;
	}

	/** Reads a stamp of a peer; `undefined` for anything else. */
	parseStamp(peer: string, subject: string | undefined): Stamp | undefined {
		const lead = `${this.prefix}.${peer}.${SENT_TOKEN}.`;
		if (subject === undefined || !subject.startsWith(lead)) return undefined;
		const [, run, number] = STAMP.exec(subject.slice(lead.length)) ?? [];
		return run === undefined || number === undefined
			? undefined
			: { run, number: Number(number) };
	}

	/** The subject on which a peer takes hint envelopes. */
	hintsOf(peer: string): string {
		return `${this.prefix}.${peer}.hints`;
	}

	/** The subject on which a peer announces itself. */
	presenceOf(peer: string): string {
		return `${this.presenceQuery}.${peer}`;
	}

	/** The peer that an announcement subject belongs to, or `undefined`. The subject, not the payload, says who speaks. */
	peerOfPresence(subject: string): string | undefined {
		const lead = `${this.presenceQuery}.`;
		if (!subject.startsWith(lead)) return undefined;
		const peer = subject.slice(lead.length);
		return isPeerName(peer) ? peer : undefined;
	}
}
