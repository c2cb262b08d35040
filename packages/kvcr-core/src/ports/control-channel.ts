/**
 * The control channel: small messages between instances (page "wire" of the protocol). It may lose messages, delivers
 * each at most once, and keeps the order of one sender to one receiver. Deadlines of the operations above it, not
 * the channel, decide when a peer counts as silent.
 *
 * Everything that arrives is hostile until validated by the receiver; the channel bounds only its size.
 */

/** Largest message a channel must carry and may accept: 1 MiB. */
export const MAX_CONTROL_MESSAGE_BYTES = 1 << 20;

/** Receives one message. The bytes belong to the callee. Must not throw; a channel survives it anyway. */
export type ControlReceiver = (message: Uint8Array) => void;

/** Counters of a channel since its start. All are monotonic. */
export interface ControlChannelStats {
	/** Messages accepted for sending. */
	readonly sent: number;
	/** Messages handed to the receiver. */
	readonly received: number;
	/** Sends refused (`send` returned false), by bounded reason, e.g. `"queue_full"`, `"too_large"`, `"closed"`. */
	readonly refused: Readonly<Record<string, number>>;
	/** Incoming messages dropped by bounded reason, e.g. `"too_large"`. */
	readonly dropped: Readonly<Record<string, number>>;
}

/** One peer's side of the control plane. See the conformance suite `controlChannelSuite` in `kvcr-core/testing`. */
export interface ControlChannel {
	/**
	 * The endpoint others use to reach this channel, known once `start` resolved; `undefined` for a channel that has no
	 * address of its own (it can send, and nobody can answer).
	 */
	readonly endpoint: string | undefined;
	/**
	 * True when no other live process can receive at `endpoint` at the same time (a bound listening socket that is advertised
	 * as it is). Whoever has such an endpoint knows that its predecessor there is dead. Default: false.
	 */
	readonly exclusiveEndpoint?: boolean;
	/**
	 * Binds and begins to deliver. Resolves when `endpoint` is final and messages can arrive.
	 * @throws AlreadyStartedError on a second call, ClosedError after `close`, InvalidEndpointError for an unusable address.
	 */
	start(receive: ControlReceiver): Promise<void>;
	/**
	 * Queues one message for a peer and returns at once. `false` means not accepted (queue full, too large, closed, endpoint
	 * of another transport): nothing will be sent. `true` is no promise of delivery. Never throws and never blocks.
	 * The bytes must not be changed afterwards.
	 */
	send(endpoint: string, message: Uint8Array): boolean;
	/**
	 * Said from within the receiver, about the message it was just given: it is dropped, because its sender sends more than
	 * it is due. A channel that can makes more of the same cheaper for a few milliseconds: it leaves messages with their
	 * sender, or has them dropped on the way. Others may be delayed by that, no longer than those milliseconds, and must not
	 * lose anything. Never throws. Optional.
	 */
	slowDown?(): void;
	/** A snapshot of the counters. */
	stats(): ControlChannelStats;
	/**
	 * Stops delivery, releases sockets and timers, drops what is queued after at most a short, bounded flush. After it
	 * resolves the receiver is never called again. Closing twice resolves.
	 */
	close(): Promise<void>;
}
