/** One subscription as a link keeps it, over any number of connections. */
import { reasonOf } from "./errors.js";
import type { SubscribeOptions } from "./link-types.js";
import type {
	NatsLike,
	NatsLikeMessage,
	NatsLikeSubscription,
} from "./nats-like.js";

/** See the file comment. */
export class Registered {
	/** Why the server, or the client, refuses it. */
	refusal: Error | undefined;
	private held: NatsLikeSubscription | undefined;
	private on: NatsLike | undefined;

	constructor(
		readonly subject: string,
		private readonly handler: (message: NatsLikeMessage) => void,
		readonly options: SubscribeOptions = {},
	) {}

	/** False when it was refused, ended, or never made. */
	get live(): boolean {
		return (
			this.refusal === undefined &&
			this.held !== undefined &&
			!this.held.isClosed()
		);
	}

	/** Subscribes on `connection` unless it is live there; `ended` is told when the server refuses it, now or later. */
	renew(connection: NatsLike, ended: (reason: unknown) => void): void {
		if (this.on === connection && this.live) return;
		this.drop();
		this.on = connection;
		try {
			const { max } = this.options;
			const held = connection.subscribe(this.subject, {
				...(max !== undefined && { max }),
				callback: (error, message) => {
					if (this.held !== held) return;
					if (error === null || error === undefined) this.handler(message);
					else {
						this.refusal = error;
						ended(error);
					}
				},
			});
			this.held = held;
		} catch (error) {
			this.refusal =
				error instanceof Error ? error : new Error(reasonOf(error));
			ended(error);
		}
	}

	/** Ends it at the server; the handler gets what is under way. A client that cannot do that loses it. */
	drain(): void {
		const { held } = this;
		if (held?.drain === undefined) this.drop();
		else held.drain().catch(() => {}); // The connection is gone, and the subscription with it.
	}

	/** Unsubscribes and forgets the connection. */
	drop(): void {
		const { held } = this;
		this.held = undefined;
		this.on = undefined;
		this.refusal = undefined;
		try {
			held?.unsubscribe();
		} catch {
			// The connection is gone, and the subscription with it.
		}
	}
}
