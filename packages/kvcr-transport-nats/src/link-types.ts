/** What a link is to those who use it: its states, and the pieces it takes and gives. */
import type { Dialed } from "./dial.js";
import type { NatsLike } from "./nats-like.js";

/**
 * `idle` → `connecting` → `up` ⇄ `down`; `closed` from anywhere. In `down` either the client or this link is dialing.
 */
export type LinkState = "idle" | "connecting" | "up" | "down" | "closed";

/** The states that may follow each state. */
export const MOVES: Readonly<Record<LinkState, readonly LinkState[]>> = {
	idle: ["connecting", "closed"],
	connecting: ["up", "idle", "closed"],
	up: ["down", "closed"],
	down: ["up", "closed"],
	closed: [],
};

/** Told about every change between `up` and anything else. */
export interface LinkObserver {
	linkUp(): void;
	linkDown(): void;
	/** The server refused a publication to this subject for lack of permission. */
	publishRefused?(subject: string): void;
}

/** Where connections come from. */
export type LinkSource =
	| { readonly kind: "borrowed"; readonly connection: NatsLike }
	| {
			readonly kind: "own";
			readonly dial: (
				timeoutMs: number,
				signal: AbortSignal,
			) => Promise<Dialed>;
	  };

/** A subscription that survives connections. */
export interface LinkSubscription {
	readonly subject: string;
	/** Why the server refused it, while it does. It is tried again every few seconds, unless it is optional. */
	readonly refusal: Error | undefined;
	unsubscribe(): void;
	/** Like `unsubscribe`, but what the server had sent by then is still handed over. */
	drain(): void;
}

/** How a subscription is made. */
export interface SubscribeOptions {
	/** Messages after which the server ends it by itself. Default: never. */
	readonly max?: number;
	/** A refusal fails no `confirm` and is final: what uses it has another way. Default: false. */
	readonly optional?: boolean;
	/** Told when an optional one is refused, at first or later. */
	readonly refused?: () => void;
}
