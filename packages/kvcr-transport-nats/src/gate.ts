/**
 * A subscription that can be narrowed. A client reads one connection in the order in which the server filled it, so a flood
 * has to be kept out of it: at the server, which drops what nobody subscribes to. A narrow gate subscribes for a few
 * messages at a time, with pauses between, until that many do not come any more.
 *
 * `closed` → `open` ⇄ `shut` ⇄ `ajar` → `open`; `closed` from anywhere.
 */
import type { Clock, Timer } from "kvcr-core";
import type { LinkSubscription, SubscribeOptions } from "./link-types.js";
import type { NatsLikeMessage } from "./nats-like.js";

/** Messages, and bytes, that a narrow gate takes at once. Bytes are a goal: the next opening is for fewer messages. */
const OPENING = { messages: 8, bytes: 64 << 10 } as const;

/** Pause between two openings, in milliseconds. */
const PAUSE_MS = 10;

/** Noise per millisecond that is not a flood any more. */
const CALM_RATE = 0.3;

/** How long it has to be calm before the gate opens, in milliseconds. */
const CALM_MS = 5_000;

/**
 * How long it stays narrow at most, in milliseconds. Then it opens, whatever comes: what used to be a flood may be the honest
 * messages of many by now, and if it is not, that shows at once.
 */
const LONGEST_MS = 30_000;

/** What a gate needs. */
export interface GateOptions {
	readonly clock: Clock;
	readonly subscribe: (
		handler: (message: NatsLikeMessage) => void,
		options: SubscribeOptions,
	) => LinkSubscription;
	/** Takes a message; false when it is of somebody who does not need this gate. */
	readonly handle: (message: NatsLikeMessage) => boolean;
	/** It becomes narrow: called before anything can be lost. */
	readonly narrowed?: () => void;
	/** It is open again. */
	readonly opened?: () => void;
}

type GateState = "closed" | "open" | "shut" | "ajar";

/** See the file comment. */
export class Gate {
	private current: GateState = "closed";
	private subscription: LinkSubscription | undefined;
	private timer: Timer | undefined;
	/** Of the opening in progress. */
	private opening = { left: 0, noise: 0, bytes: 0, at: 0 };
	private credit: number = OPENING.messages;
	private loudAt = 0;
	private narrowedAt = 0;

	constructor(private readonly options: GateOptions) {}

	/** Where it is. */
	get state(): GateState {
		return this.current;
	}

	/** Subscribes. The subscription tells whether the server allows that. */
	open(): LinkSubscription {
		this.timer?.cancel();
		this.timer = undefined;
		this.current = "open";
		const subscription = this.options.subscribe(
			(message) => this.options.handle(message),
			{},
		);
		this.subscription = subscription;
		return subscription;
	}

	/** Keeps a flood out from now on. */
	narrow(): void {
		if (this.current !== "open") return;
		this.options.narrowed?.();
		this.subscription?.drain();
		this.narrowedAt = this.options.clock.now();
		this.loudAt = this.narrowedAt;
		this.credit = OPENING.messages;
		this.shut();
	}

	/** Unsubscribes. */
	close(): void {
		this.current = "closed";
		this.timer?.cancel();
		this.timer = undefined;
		this.subscription?.unsubscribe();
		this.subscription = undefined;
	}

	private shut(): void {
		this.current = "shut";
		this.subscription = undefined;
		this.timer?.cancel();
		this.timer = this.options.clock.schedule(PAUSE_MS, () => this.setAjar());
	}

	private setAjar(): void {
		const { clock, subscribe } = this.options;
		this.timer?.cancel();
		this.current = "ajar";
		const opening = {
			left: this.credit,
			noise: 0,
			bytes: 0,
			at: clock.now(),
		};
		this.opening = opening;
		const subscription = subscribe(
			(message) => {
				// What an earlier opening left behind was counted there.
				if (this.opening === opening && this.current === "ajar")
					this.count(message);
				else this.options.handle(message);
			},
			{ max: this.credit },
		);
		this.subscription = subscription;
		const calmInMs = this.loudAt + CALM_MS - clock.now();
		this.timer = clock.schedule(Math.max(0, calmInMs), () => this.openAgain());
	}

	private count(message: NatsLikeMessage): void {
		const { opening } = this;
		opening.left--;
		opening.bytes += message.data.byteLength;
		const ended = opening.left <= 0;
		if (this.options.handle(message)) opening.noise++;
		if (!ended || this.current !== "ajar") return;
		this.subscription?.unsubscribe();
		const now = this.options.clock.now();
		const average = Math.max(1, opening.bytes / this.credit);
		this.credit = Math.min(
			OPENING.messages,
			Math.max(1, Math.floor(OPENING.bytes / average)),
		);
		if (now - this.narrowedAt >= LONGEST_MS) this.openAgain();
		else if (opening.noise > CALM_RATE * Math.max(1, now - opening.at)) {
			this.loudAt = now;
			this.shut();
		} else if (now - this.loudAt < CALM_MS) this.setAjar();
		else this.openAgain();
	}

	private openAgain(): void {
		this.subscription?.drain();
		this.open();
		this.options.opened?.();
	}
}
