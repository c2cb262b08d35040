/** What the owner passes to its calls, and gets from them. */
import type { ManagedCacheStats } from "../cache/index.js";
import type {
	CacheTier,
	FrameworkPiece,
	ReleaseHandle,
} from "../ports/index.js";

/** A piece of a block to deposit: registered framework memory, or any bytes, unchanged until the operation completes. */
export type DepositPiece =
	| FrameworkPiece
	| {
			/** Label of its pool. */
			readonly label: string;
			/** As many as a slot of the pool has. */
			readonly bytes: Uint8Array;
	  };

/** A block to deposit: its pieces in layout order. */
export interface DepositBlock {
	/** Full key, 1 to 1024 bytes. */
	readonly key: Uint8Array;
	/** At least one; their labels are the layout of the block. */
	readonly pieces: readonly DepositPiece[];
}

/** Where a block is to be delivered: framework memory per piece. A subset of the labels asks for those pieces only. */
export interface DeliverDestination {
	/** Full key, 1 to 1024 bytes. */
	readonly key: Uint8Array;
	/** Elements of registered framework regions; each place at most once in a call. */
	readonly pieces: readonly FrameworkPiece[];
}

/** What is known about a block, without asking anybody. A status is not a promise. */
export type QueryResult =
	| {
			/** `HIT`: here. `FETCHING`: on its way. `FETCHABLE`: advice names a source. */
			readonly status: "HIT" | "FETCHING" | "FETCHABLE";
			/** Where it is, or comes from. */
			readonly tier: CacheTier;
	  }
	| {
			/** Nothing is known of it. */
			readonly status: "MISS";
			/** None. */
			readonly tier?: undefined;
	  };

/** What became of one release handle. */
export interface ReleaseResult {
	/** The handle, as it was passed. */
	readonly handle: ReleaseHandle;
	/** False when the handle was unknown or released before. */
	readonly released: boolean;
}

/** A snapshot of an instance, for operators and tests. */
export interface KvcrStats {
	/** Every counter so far, as `name{label="value"}`. */
	readonly counters: Readonly<Record<string, number>>;
	/** Managed memory; undefined when no pool has slots. */
	readonly cache: ManagedCacheStats | undefined;
	/** Operations begun on this instance. */
	readonly operations: {
		/** Without a completion yet. */
		readonly open: number;
		/** Completed, and not handed out by `pollCompleted` yet. */
		readonly uncollected: number;
	};
	/** Transfers whose memory is not safe yet, by side. */
	readonly transfers: {
		/** Those this instance asked for, by state. */
		readonly pulls: Readonly<Record<string, number>>;
		/** Those it writes to peers. */
		readonly writes: number;
	};
	/** Pins on framework memory. */
	readonly pins: {
		/** Granted, and in use. */
		readonly held: number;
		/** Asked for, without an answer. */
		readonly pending: number;
		/** Given back, and not taken by the framework yet. */
		readonly releasing: number;
	};
	/** Advice stored, private advice of hints under way included. */
	readonly advice: number;
	/** Other instances this one knows. */
	readonly peers: {
		/** Those it can write to: their metadata is loaded. */
		readonly targets: number;
		/** Those it asks for blocks. */
		readonly sources: number;
	};
	/** Hashes of independent hints without an outcome. */
	readonly hintsPending: number;
}
