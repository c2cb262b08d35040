/**
 * The transfer agent: registered memory and one-sided writes into a peer's registered memory. Core names memory by
 * region and element only; addresses stay inside agents and pass through core as opaque region descriptors.
 *
 * Life of a write: `write` posts it → it is in flight → exactly one completion is handed out by `takeCompletions`. A
 * completion means that the agent will never again touch the memory on behalf of that write: an agent that cannot prove
 * this does not report one. The notification of a write reaches the remote agent after all of its bytes, and only
 * if it succeeded.
 */

/**
 * A region as it appears on the wire (`target_regions`): `count` elements of `size` bytes, `stride` bytes apart
 * (0: contiguous). `addr` is 64-bit and meaningful to agents only.
 */
export interface RegionDescriptor {
	/** Kind of memory, as NIXL names it, e.g. `"DRAM"`. */
	readonly memType: string;
	/** Device of that kind. */
	readonly deviceId: number;
	/** Start, in whatever numbers the agent uses. */
	readonly addr: bigint;
	/** Bytes from one element to the next. */
	readonly stride: number;
	/** Number of elements. */
	readonly count: number;
	/** Bytes of one element. */
	readonly size: number;
	/** Label by which both sides match regions. */
	readonly label: string;
}

/** What to allocate: `elementCount` elements of `elementBytes` bytes each, contiguous, zero-filled. */
export interface RegionSpec {
	/** Name of the region; unique per owner, may be empty. */
	readonly label: string;
	/** Bytes per element, at least 1. */
	readonly elementBytes: number;
	/** Number of elements, at least 1. The total may exceed 4 GiB. */
	readonly elementCount: number;
}

/** Registered memory with an owner and an explicit end. */
export interface MemoryRegion {
	/** Label it was created with. */
	readonly label: string;
	/** Bytes per element. */
	readonly elementBytes: number;
	/** Number of elements. */
	readonly elementCount: number;
	/** Wire form of this region, sent to peers unchanged. */
	readonly descriptor: RegionDescriptor;
	/** True after `release`, or after the agent closed. */
	readonly released: boolean;
	/**
	 * The bytes of one element: a view of `elementBytes` bytes on the registered memory itself, no copy. Views become
	 * unusable (length 0) when the region ends.
	 * @throws ElementOutOfRangeError, RegionReleasedError
	 */
	element(index: number): Uint8Array;
	/**
	 * Deregisters and frees. Releasing twice does nothing.
	 * @throws RegionBusyError while a transfer may still touch the region; it then stays usable.
	 */
	release(): void;
}

/**
 * A loaded remote agent. A handle is good for one generation: after removal or replacement, and once the connection is known
 * to be broken, it is stale. Loading the same metadata again connects afresh.
 */
export interface RemoteAgent {
	/** Name of the remote agent as its metadata states it. */
	readonly name: string;
}

/** One element to copy: from a local region to the `remoteRegion`-th region given to `addRemote`. */
export interface ElementPair {
	/** Local region. */
	readonly region: MemoryRegion;
	/** Index in the local region. */
	readonly element: number;
	/** Index into the `regions` given to `addRemote`. */
	readonly remoteRegion: number;
	/** Index in the remote region. */
	readonly remoteElement: number;
}

/** One write: all pairs, then the notification. */
export interface WriteRequest {
	/** Where to write to. */
	readonly remote: RemoteAgent;
	/** At least one; both elements of a pair have the same size. */
	readonly pairs: readonly ElementPair[];
	/** Delivered to the remote after all bytes are visible there. */
	readonly notification: Uint8Array;
}

/** Local name of one write in flight. Never reused by the same agent. */
export type TransferId = number & {
	/** Known to the type checker only; no value has it. */
	readonly __transfer: never;
};

/** The end of one write. Only `done` is success. */
export interface TransferCompletion {
	/** The transfer that ended. */
	readonly transfer: TransferId;
	/** How it ended. */
	readonly outcome: "done" | "failed" | "cancelled";
	/** Why, for `failed` and `cancelled`. */
	readonly reason?: string;
}

/** A notification that arrived, with the name of the agent that sent it. */
export interface AgentNotification {
	/** Name of the agent that sent it. */
	readonly from: string;
	/** Its bytes, as sent. */
	readonly payload: Uint8Array;
}

/** While held, the agent watches for incoming writes and notifications. End it exactly once; ending twice is harmless. */
export interface TrafficExpectation {
	/** The expectation is over. */
	end(): void;
}

/** What an operator wants to know about an agent. */
export interface TransferAgentInfo {
	/** `"nixl"`, `"portable"`, … */
	readonly kind: string;
	/** Transports it can use, most preferred first, as the engine names them. */
	readonly transports: readonly string[];
	/** True when at least one of them is RDMA. */
	readonly rdma: boolean;
	/** Further facts: versions, devices. Keys are bounded and stable. */
	readonly details: Readonly<Record<string, string>>;
}

/**
 * Moves bytes. All methods but `createRegion` and `close` return at once. See the conformance suite
 * `transferAgentSuite` in `kvcr-core/testing`.
 */
export interface TransferAgent {
	/** Name of this agent, unique by itself (wire field `target_agent`). */
	readonly name: string;
	/** Kind, transports and settings of this agent. */
	readonly info: TransferAgentInfo;
	/**
	 * Sets the one listener that is called when completions or notifications may be waiting. Calls may be spurious and are
	 * coalesced; they never happen inside another method of the agent.
	 * @throws AlreadyStartedError when there is a listener already.
	 */
	attach(wake: () => void): void;
	/** Removes the listener. */
	detach(): void;
	/**
	 * Allocates and registers memory. Slow for large regions; not an error.
	 * @throws InvalidArgumentError, TransferAgentError, ClosedError (as rejection)
	 */
	createRegion(spec: RegionSpec): Promise<MemoryRegion>;
	/** The blob peers need to reach the memory registered so far (wire field `target_agent_metadata`). */
	localMetadata(): Uint8Array;
	/**
	 * Loads a peer and prepares its regions. The agent's own metadata is allowed: transfers to itself work.
	 * Loading a blob of an agent name that is loaded already replaces it: the former handle becomes stale.
	 * @throws InvalidMetadataError for unusable bytes or regions that the metadata does not cover (where that is detectable),
	 * RemoteBusyError when the name is loaded and has writes in flight, TransferAgentError when the peer cannot be reached
	 * (where that shows at once).
	 */
	addRemote(
		metadata: Uint8Array,
		regions: readonly RegionDescriptor[],
	): RemoteAgent;
	/**
	 * Forgets a peer. Removing a stale handle does nothing.
	 * @throws RemoteBusyError while writes to it are in flight.
	 */
	removeRemote(remote: RemoteAgent): void;
	/** Opens the connection ahead of need, in the background; failures show at the first write. */
	connect(remote: RemoteAgent): void;
	/**
	 * Posts one write.
	 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError, StaleRemoteError, ClosedError,
	 * TransferAgentError: then nothing was posted and no byte will move.
	 */
	write(request: WriteRequest): TransferId;
	/**
	 * Asks for the end of a write. Best effort: its completion still comes, once, when it is known to be over, and may well
	 * be `done`. Returns false for a transfer that is unknown or already completed.
	 */
	cancel(transfer: TransferId): boolean;
	/** Takes the completions since the last call, in the order they became known. */
	takeCompletions(): readonly TransferCompletion[];
	/** Sends a notification that is not tied to a write. False: not accepted; true is no promise of delivery. */
	notify(remote: RemoteAgent, payload: Uint8Array): boolean;
	/** Takes the notifications that arrived since the last call, per sender in order. */
	takeNotifications(): readonly AgentNotification[];
	/** Declares that incoming traffic is expected until the returned handle is ended. */
	expectTraffic(): TrafficExpectation;
	/**
	 * Ends writes in flight, releases every region and remote, and proves that nothing can touch the memory any more.
	 * Bounded in time. Closing twice gives the same result.
	 * @throws NotQuiescentError (as rejection) when that proof fails: regions stay mapped.
	 */
	close(): Promise<void>;
}
