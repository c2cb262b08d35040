/**
 * The part of a NATS connection this package uses, as a structural type. The connection of `@nats-io/transport-node`
 * has this shape, and so has the one of the older `nats` package (2.x); a caller's own connection may be either.
 */

/** A message as handed to a subscription's callback. */
export interface NatsLikeMessage {
	/** The subject it was published to. */
	readonly subject: string;
	/** Its payload; may be a view of a larger buffer of the client. */
	readonly data: Uint8Array;
	/** Where its sender expects an answer; absent or empty when it expects none. */
	readonly reply?: string | undefined;
	/** Headers, where it has any; a message of the server itself says what it means by a code. */
	readonly headers?: { readonly code: number } | undefined;
}

/** One subscription. */
export interface NatsLikeSubscription {
	/** Ends it at once; no message reaches the callback afterwards. */
	unsubscribe(): void;
	/** Ends it at the server at once; what the server had sent by then still reaches the callback. May reject. */
	drain?(): Promise<void>;
	/** Whether it ended, by `unsubscribe` or because the server refused it. */
	isClosed(): boolean;
}

/** A change of the connection. Only `type` is common to all client generations. */
export interface NatsLikeStatus {
	/** The client's own word for the change, such as `"disconnect"` or `"reconnect"`. */
	readonly type: string;
}

/** A connection: of `@nats-io/transport-node`, of `nats` 2.x, or of anything else of this shape. */
export interface NatsLike {
	/** What the server said of itself; absent until it did. */
	readonly info?: {
		/** Largest payload the server takes, in bytes. */
		readonly max_payload: number;
	};
	/** Hands a message to the client for sending. May throw, for example when the connection is closed. */
	publish(
		subject: string,
		payload?: Uint8Array,
		options?: {
			/** Subject to name for answers. */
			reply?: string;
		},
	): void;
	/** Subscribes; the client repeats it after a reconnect. May throw like `publish`. */
	subscribe(
		subject: string,
		options?: {
			/** Takes each message, or the error that ended the subscription. */
			callback?: (error: Error | null, message: NatsLikeMessage) => void;
			/** Messages after which the server ends it by itself. */
			max?: number;
		},
	): NatsLikeSubscription;
	/** Resolves when the server has taken everything handed over before; rejects when the connection ends first. */
	flush(): Promise<void>;
	/** Ends the connection for good. Called only on connections this package opened. */
	close(): Promise<void>;
	/** Whether the connection ended for good; false while the client is reconnecting. */
	isClosed(): boolean;
	/** The changes of the connection from now on. */
	status(): AsyncIterable<NatsLikeStatus>;
}

/** True when a value has the methods every NATS connection has. */
export function isNatsLike(value: unknown): value is NatsLike {
	if (typeof value !== "object" || value === null) return false;
	const { publish, subscribe, flush, status } = value as Partial<NatsLike>;
	return [publish, subscribe, flush, status].every(
		(method) => typeof method === "function",
	);
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

/** What the server refused, where the status tells. Each client generation has its own place for it. */
export function refusedOperation(
	status: NatsLikeStatus,
): { readonly operation: string; readonly subject: string } | undefined {
	const { error, permissionContext } = status as {
		error?: { readonly operation?: unknown; readonly subject?: unknown };
		permissionContext?: {
			readonly operation?: unknown;
			readonly subject?: unknown;
		};
	};
	const { operation, subject } = permissionContext ?? error ?? {};
	return typeof operation === "string" && typeof subject === "string"
		? { operation, subject }
		: undefined;
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
