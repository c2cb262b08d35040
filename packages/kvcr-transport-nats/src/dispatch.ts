/**
 * What goes out: to each peer over the subject that is for this sender alone. Where nobody subscribes to that (a peer that
 * does not know of such subjects, or is not there), the server says so, and what it returned goes to the subject for
 * anybody. A message that came back was delivered to nobody, so it still arrives at most once.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { Clock } from "kvcr-core";
import type { SubjectSpace } from "./subjects.js";

/** What may still come back: most messages, and bytes, that are kept for that. */
const KEPT = { messages: 4_096, bytes: 4 << 20 } as const;

/** Peers about which something is remembered, at most. */
const MAX_PEERS = 1_024;

/** How long the other subject of a peer is used after something came back, in milliseconds. */
const PLAIN_MS = 60_000;

/** What the dispatch needs. */
export interface DispatchOptions {
	readonly subjects: SubjectSpace;
	/** Name of this peer. */
	readonly peer: string;
	readonly clock: Clock;
	/** Takes a message for the server; false when there is no room. */
	readonly offer: (
		subject: string,
		payload: Uint8Array,
		stamp: string,
	) => boolean;
}

interface Kept {
	readonly peer: string;
	readonly payload: Uint8Array;
}

/** See the file comment. */
export class Dispatch {
	/** Nobody but a peer itself may know how its messages are stamped. */
	private readonly secret = randomBytes(32);
	private readonly runs = new Map<string, string>();
	/** By number, the oldest first. */
	private readonly kept = new Map<number, Kept>();
	private keptBytes = 0;
	/** No number below this one is kept. (The first of a map is found slowly once many have come and gone.) */
	private oldest = 1;
	/** Peers of which something came back, and until when they count as such. */
	private readonly plain = new Map<string, number>();
	private number = 0;
	/** Until when the server is taken to forbid the subjects of single senders. */
	private forbiddenUntil = Number.NEGATIVE_INFINITY;

	constructor(private readonly options: DispatchOptions) {}

	/** Sends a message; false when there is no room. */
	send(peer: string, payload: Uint8Array): boolean {
		const { subjects, offer } = this.options;
		const number = this.number + 1;
		const direct = this.isDirect(peer);
		const subject = direct
			? subjects.fromOf(peer, this.options.peer)
			: subjects.controlOf(peer);
		if (!offer(subject, payload, this.stamp(peer, number))) return false;
		this.number = number;
		if (direct) this.keep(number, { peer, payload });
		return true;
	}

	/** A peer was heard over the subject of single senders: it knows of them. */
	heard(peer: string): void {
		this.plain.delete(peer);
	}

	/** The server returned a message: `subject` is its stamp. */
	returned(subject: string): void {
		const { subjects, offer, clock } = this.options;
		const stamp = subjects.parseStamp(this.options.peer, subject);
		const first = stamp && this.kept.get(stamp.number);
		if (first === undefined || stamp?.run !== this.runOf(first.peer)) return;
		bound(this.plain);
		this.plain.set(first.peer, clock.now() + PLAIN_MS);
		// What went there later came back as well, or will: in its order, and under its number, should that be wrong.
		for (const [number, { peer, payload }] of this.kept) {
			if (peer !== first.peer || number < stamp.number) continue;
			this.forget(number);
			offer(subjects.controlOf(peer), payload, this.stamp(peer, number));
		}
	}

	/** The server forbids a subject of single senders; it is not tried again for a while. */
	forbidden(): void {
		this.forbiddenUntil = this.options.clock.now() + PLAIN_MS;
		this.kept.clear();
		this.keptBytes = 0;
	}

	/** The server does not tell what came back, so nothing may go where nobody might be. */
	withoutReturns(): void {
		this.forbiddenUntil = Number.POSITIVE_INFINITY;
	}

	private isDirect(peer: string): boolean {
		const now = this.options.clock.now();
		if (now < this.forbiddenUntil) return false;
		const until = this.plain.get(peer);
		if (until === undefined) return true;
		if (now < until) return false;
		this.plain.delete(peer);
		return true;
	}

	private stamp(peer: string, number: number): string {
		const { subjects } = this.options;
		return subjects.stampOf(this.options.peer, this.runOf(peer), number);
	}

	/** What this run is called towards a peer: each knows another name, so that none can speak of the others'. */
	private runOf(peer: string): string {
		let run = this.runs.get(peer);
		if (run === undefined) {
			run = createHmac("sha256", this.secret)
				.update(peer)
				.digest("base64url")
				.slice(0, 16);
			bound(this.runs);
			this.runs.set(peer, run);
		}
		return run;
	}

	private keep(number: number, message: Kept): void {
		this.kept.set(number, message);
		this.keptBytes += message.payload.byteLength;
		while (this.kept.size > KEPT.messages || this.keptBytes > KEPT.bytes)
			this.forget(this.oldest++);
	}

	private forget(number: number): void {
		this.keptBytes -= this.kept.get(number)?.payload.byteLength ?? 0;
		this.kept.delete(number);
	}
}

/** Makes room for one more. */
function bound(map: Map<string, unknown>): void {
	if (map.size < MAX_PEERS) return;
	for (const oldest of map.keys()) {
		map.delete(oldest);
		return;
	}
}
