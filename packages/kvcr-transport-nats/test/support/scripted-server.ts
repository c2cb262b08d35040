/** A server in a few lines: keeps subscriptions, hands messages to whom they match, ends those with a maximum. */
import type {
	LinkSubscription,
	SubscribeOptions,
} from "../../src/link-types.js";
import type { NatsLikeMessage } from "../../src/nats-like.js";

interface Subscribed {
	readonly subject: string;
	readonly handler: (message: NatsLikeMessage) => void;
	left: number;
	/** Drained: gets nothing new, but what was under way. */
	state: "live" | "drained" | "ended";
}

export class ScriptedServer {
	/** Everything ever subscribed to, in order, as `subject` or `subject max`. */
	readonly log: string[] = [];
	private readonly all: Subscribed[] = [];
	private readonly underWay: (() => void)[] = [];
	/** While set, messages stay under way until `arrive`. */
	hold = false;

	/** Subjects with a live subscription. */
	get subjects(): string[] {
		return this.all
			.filter(({ state, left }) => state === "live" && left > 0)
			.map(({ subject }) => subject);
	}

	readonly subscribe = (
		subject: string,
		handler: (message: NatsLikeMessage) => void,
		{ max }: SubscribeOptions,
	): LinkSubscription => {
		const entry: Subscribed = {
			subject,
			handler,
			left: max ?? Number.POSITIVE_INFINITY,
			state: "live",
		};
		this.all.push(entry);
		this.log.push(max === undefined ? subject : `${subject} ${max}`);
		return {
			subject,
			refusal: undefined,
			unsubscribe: () => {
				entry.state = "ended";
			},
			drain: () => {
				entry.state = "drained";
			},
		};
	};

	/** Publishes a message; returns how many subscriptions it went to. */
	publish(subject: string, data = new Uint8Array(1), reply?: string): number {
		let count = 0;
		for (const entry of [...this.all]) {
			if (entry.state !== "live" || entry.left <= 0) continue;
			if (!matches(entry.subject, subject)) continue;
			entry.left--;
			count++;
			const hand = () => {
				if (entry.state !== "ended") entry.handler({ subject, data, reply });
			};
			if (this.hold) this.underWay.push(hand);
			else hand();
		}
		return count;
	}

	/** Hands over what is under way. */
	arrive(): void {
		for (const hand of this.underWay.splice(0)) hand();
	}
}

function matches(pattern: string, subject: string): boolean {
	const [wanted, given] = [pattern.split("."), subject.split(".")];
	return (
		wanted.length === given.length &&
		wanted.every((token, at) => token === "*" || token === given[at])
	);
}
