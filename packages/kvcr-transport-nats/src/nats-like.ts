/**
 * The part of a NATS connection this package uses, as a structural type. The connection of `@nats-io/transport-node`
 * has this shape, and so has the one of the older `nats` package (2.x); a caller's own connection may be either.
 */

/** A message as handed to a subscription's callback. */
export interface NatsLikeMessage {
	readonly subject: string;
	readonly data: Uint8Array;
	readonly reply?: string | undefined;
}

/** One subscription. */
export interface NatsLikeSubscription {
	unsubscribe(): void;
	isClosed(): boolean;
}

/** A change of the connection. Only `type` is common to all client generations. */
export interface NatsLikeStatus {
	readonly type: string;
}

/** A connection: of `@nats-io/transport-node`, of `nats` 2.x, or of anything else of this shape. */
export interface NatsLike {
	readonly info?: { readonly max_payload: number };
	publish(
		subject: string,
		payload?: Uint8Array,
		options?: { reply?: string },
	): void;
	subscribe(
		subject: string,
		options?: {
			callback?: (error: Error | null, message: NatsLikeMessage) => void;
		},
	): NatsLikeSubscription;
	flush(): Promise<void>;
	close(): Promise<void>;
	isClosed(): boolean;
	status(): AsyncIterable<NatsLikeStatus>;
}

/** What a status means here. Everything else a client reports is of no concern. */
export type StatusKind =
	| "disconnect"
	| "reconnect"
	| "stale"
	| "permission"
	| "other";

/** Reads a status of either client generation. */
export function statusKind(status: NatsLikeStatus): StatusKind {
	switch (status.type) {
		case "disconnect":
			return "disconnect";
		case "reconnect":
			return "reconnect";
		case "staleConnection":
			return "stale";
		case "error":
			return isPermissionError(status) ? "permission" : "other";
		default:
			return "other";
	}
}

/** Ends an iteration of statuses that may be waiting for its next value. Both clients' iterators have `stop`. */
export function stopStatus(statuses: AsyncIterable<NatsLikeStatus>): void {
	const stop = (statuses as { stop?: unknown }).stop;
	if (typeof stop === "function") stop.call(statuses);
}

function isPermissionError(status: NatsLikeStatus): boolean {
	const { error, data, permissionContext } = status as {
		error?: unknown;
		data?: unknown;
		permissionContext?: unknown;
	};
	if (error instanceof Error) return error.name === "PermissionViolationError";
	return permissionContext !== undefined || data === "PERMISSIONS_VIOLATION";
}
