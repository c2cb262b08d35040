/**
 * Keeps one sender from starving the others. While there is time, messages are handled as they come. Once this turn of the
 * event loop has had its share, they wait in lanes, one per peer and one for all strangers together, and the lanes are
 * served in turn: a peer waits for at most one message of every other lane, however much somebody else sends. Whoever used
 * more than its share of time waits until it has made up for that, also when nobody else is there: what its messages start
 * (replies, look-ups, garbage) would be in the way of who comes next. Where others are, shares are smaller. A full lane loses what comes, at the cost of looking for the
 * sender's name, without decoding.
 *
 * Who a sender is, its messages say themselves. A stranger becomes a peer by an introduction that the transfer agent
 * accepted, or by answering what it was asked; until then it shares a lane with everybody like it.
 */
import type { Clock, Incarnation, Timer } from "../ports/index.js";
import { RecencyMap } from "./recency-map.js";
import { senderOf } from "./sender-of.js";

/** Time for messages in one turn of the event loop, in milliseconds; the one that uses it up is finished. */
const TURN_MS = 0.5;

/**
 * Share of time that one lane may use in the long run: alone, beside other peers, and beside them after it has
 * overflowed; and what it may use at once, in milliseconds.
 */
const PEER_SHARE = { alone: 0.5, beside: 0.25, flood: 0.05, burstMs: 20 };
const STRANGERS_SHARE = { alone: 0.2, beside: 0.05, flood: 0.05, burstMs: 2 };

/** A peer that was served within this time is there, in milliseconds. */
const PRESENT_MS = 100;

/** Most messages, and bytes, that wait in one lane. */
const LANE_MESSAGES = 1_024;
const LANE_BYTES = 4 << 20;

/** Most bytes that wait in all lanes together. */
const ALL_BYTES = 64 << 20;

/** What a stranger's message may hold beyond metadata, in bytes. */
const STRANGER_BYTES = 64 << 10;

/** Why a message was dropped before it was decoded. */
export type InboxDropReason = "flood" | "stranger_too_large";

/** What the inbox needs. */
export interface FairInboxOptions {
	readonly clock: Clock;
	/** Decodes and handles one message. Never throws. */
	readonly handle: (bytes: Uint8Array) => void;
	/** Told of each message that is dropped, from within `receive`. */
	readonly dropped: (reason: InboxDropReason) => void;
	/** Peers remembered; the one that was met longest ago is a stranger again. */
	readonly maxPeers: number;
	/** Largest metadata blob of a peer, in bytes. */
	readonly maxMetadataBytes: number;
	/** Runs a task in a later turn of the event loop. @default setImmediate */
	readonly defer?: (task: () => void) => void;
}

/** What one sender, or all strangers, used of their time. */
class Allowance {
	readonly #share: typeof PEER_SHARE;
	#debtMs = 0;
	#at = 0;

	constructor(share: typeof PEER_SHARE) {
		this.#share = share;
	}

	/** Milliseconds until it may be served; 0: now. */
	waitMs(now: number, when: "alone" | "beside" | "flood"): number {
		const { burstMs, [when]: rate } = this.#share;
		this.#debtMs = Math.max(0, this.#debtMs - (now - this.#at) * rate);
		this.#at = now;
		return Math.max(0, this.#debtMs - burstMs) / rate;
	}

	spend(ms: number): void {
		this.#debtMs += ms;
	}
}

/** When a peer was served. */
interface Served {
	readonly name: string;
	readonly at: number;
}

/** What waits of one sender. */
interface Lane {
	readonly messages: Uint8Array[];
	/** Messages before this one are gone. */
	head: number;
	bytes: number;
	/** It was full once. It counts as a flood until it is empty. */
	overflowed: boolean;
}

/** The lane of those that nobody knows. */
const STRANGERS = "";

export class FairInbox {
	readonly #options: FairInboxOptions;
	/** By incarnation, the one met or heard of longest ago first. */
	readonly #peers = new RecencyMap<string, Allowance>();
	readonly #strangers = new Allowance(STRANGERS_SHARE);
	/** Lanes with something in them, the next to be served first. */
	readonly #lanes = new Map<string, Lane>();
	/** The peer served last, and the last other one. */
	readonly #served = [
		{ name: STRANGERS, at: Number.NEGATIVE_INFINITY },
		{ name: STRANGERS, at: Number.NEGATIVE_INFINITY },
	] as [Served, Served];
	#waitingBytes = 0;
	#spentMs = 0;
	#turnPending = false;
	/** Set while everybody who waits has used up its share. */
	#timer: Timer | undefined;
	#closed = false;

	constructor(options: FairInboxOptions) {
		this.#options = options;
	}

	/** Messages that wait. */
	get waiting(): number {
		let sum = 0;
		for (const { messages, head } of this.#lanes.values())
			sum += messages.length - head;
		return sum;
	}

	/** Gives a sender a lane of its own, with what waits of it. */
	met(incarnation: Incarnation): void {
		if (this.#peers.use(incarnation) !== undefined) return;
		this.#peers.set(incarnation, new Allowance(PEER_SHARE));
		this.#promote(incarnation);
		if (this.#peers.size <= this.#options.maxPeers) return;
		const [oldest] = this.#peers;
		if (oldest !== undefined) this.#peers.delete(oldest[0]);
	}

	/** Takes one message off the channel. */
	receive(bytes: Uint8Array): void {
		if (this.#closed) return;
		const { clock, dropped, maxMetadataBytes } = this.#options;
		const sender = senderOf(bytes);
		let name = STRANGERS;
		if (sender !== undefined && this.#peers.use(sender) !== undefined)
			name = sender;
		const large = bytes.byteLength > maxMetadataBytes + STRANGER_BYTES;
		if (large && name === STRANGERS) {
			dropped("stranger_too_large");
			return;
		}
		const free =
			this.#spentMs < TURN_MS &&
			!this.#lanes.has(name) &&
			this.#waitMs(name, clock.now()) === 0;
		if (free) this.#handle(name, bytes);
		else if (this.#enqueue(name, bytes)) this.#expectTurn();
		else dropped("flood");
	}

	/** Forgets what waits; nothing is handled from now on. */
	close(): void {
		this.#closed = true;
		this.#timer?.cancel();
		this.#timer = undefined;
		this.#lanes.clear();
		this.#peers.clear();
	}

	#allowance(name: string): Allowance {
		return this.#peers.get(name) ?? this.#strangers;
	}

	#waitMs(name: string, now: number): number {
		const [last, other] = this.#served;
		const rival = last.name === name ? other : last;
		const allowance = this.#allowance(name);
		if (now - rival.at >= PRESENT_MS) return allowance.waitMs(now, "alone");
		const flood = this.#lanes.get(name)?.overflowed === true;
		return allowance.waitMs(now, flood ? "flood" : "beside");
	}

	#handle(name: string, bytes: Uint8Array): void {
		const { clock, handle } = this.#options;
		const startedAt = clock.now();
		if (name !== STRANGERS) {
			if (this.#served[0].name !== name) this.#served.reverse();
			this.#served[0] = { name, at: startedAt };
		}
		handle(bytes);
		const spent = clock.now() - startedAt;
		if (spent <= 0) return;
		this.#allowance(name).spend(spent);
		this.#spentMs += spent;
		this.#expectTurn();
	}

	#enqueue(name: string, bytes: Uint8Array): boolean {
		const size = bytes.byteLength;
		if (this.#waitingBytes + size > ALL_BYTES) return false;
		const lane = this.#lane(name);
		if (
			lane.messages.length - lane.head >= LANE_MESSAGES ||
			lane.bytes + size > LANE_BYTES
		) {
			lane.overflowed = true;
			return false;
		}
		lane.messages.push(bytes);
		lane.bytes += size;
		this.#waitingBytes += size;
		return true;
	}

	#lane(name: string): Lane {
		let lane = this.#lanes.get(name);
		if (lane === undefined) {
			lane = { messages: [], head: 0, bytes: 0, overflowed: false };
			this.#lanes.set(name, lane);
		}
		return lane;
	}

	/** What a sender sent as a stranger goes before what it sends as a peer. */
	#promote(name: string): void {
		const strangers = this.#lanes.get(STRANGERS);
		if (strangers === undefined) return;
		const waiting = strangers.messages.splice(0).slice(strangers.head);
		strangers.head = 0;
		for (const bytes of waiting) {
			if (senderOf(bytes) !== name) {
				strangers.messages.push(bytes);
				continue;
			}
			const own = this.#lane(name);
			own.messages.push(bytes);
			own.bytes += bytes.byteLength;
			strangers.bytes -= bytes.byteLength;
		}
		if (strangers.messages.length === 0) this.#lanes.delete(STRANGERS);
		this.#expectTurn();
	}

	#expectTurn(): void {
		if (this.#turnPending) return;
		this.#turnPending = true;
		const { defer = setImmediate } = this.#options;
		defer(() => this.#turn());
	}

	#turn(): void {
		this.#turnPending = false;
		this.#spentMs = 0;
		if (this.#closed) return;
		// Who came since it was set may have to wait less.
		this.#timer?.cancel();
		this.#timer = undefined;
		const { clock } = this.#options;
		let waitMs = Number.POSITIVE_INFINITY;
		for (const [name, lane] of this.#lanes) {
			if (this.#spentMs >= TURN_MS) {
				waitMs = 0;
				break;
			}
			const wait = this.#waitMs(name, clock.now());
			if (wait > 0) {
				waitMs = Math.min(waitMs, wait);
				continue;
			}
			// Put back it comes last, so that this loop gets to it again after all others.
			this.#lanes.delete(name);
			const bytes = this.#take(lane);
			if (lane.head < lane.messages.length) this.#lanes.set(name, lane);
			this.#handle(name, bytes);
		}
		if (this.#lanes.size === 0) return;
		if (waitMs === 0) this.#expectTurn();
		else
			this.#timer = clock.schedule(waitMs, () => {
				this.#timer = undefined;
				this.#expectTurn();
			});
	}

	#take(lane: Lane): Uint8Array {
		const bytes = lane.messages[lane.head] as Uint8Array;
		lane.head += 1;
		lane.bytes -= bytes.byteLength;
		this.#waitingBytes -= bytes.byteLength;
		if (lane.head >= LANE_MESSAGES) {
			lane.messages.splice(0, lane.head);
			lane.head = 0;
		}
		return bytes;
	}
}
