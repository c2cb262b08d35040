/** What a test asks of a worker process, and what comes back. Travels by structured clone: bigint and bytes are fine. */
import type {
	EntryStatus,
	FailureReason,
	HintOutcomeReport,
	InventoryEvent,
	KvcrStats,
	QueryResult,
	TransferAgentInfo,
} from "kvcr-core";

/** Transfer agents to run a scenario over. */
export type AgentKind = "portable" | "nixl";
/** Control channels to run a scenario over; `memory` keeps all workers in the test's process. */
export type ChannelKind = "zmq" | "nats" | "memory";

/** How to set a worker up. */
export interface WorkerOptions {
	readonly agent: AgentKind;
	readonly channel: ChannelKind;
	/** Distinguishes workers that share a NATS server, and names the subject. */
	readonly name: string;
	/** NIXL: name of the agent; default: one that is unique by itself. */
	readonly agentName?: string;
	/** ZeroMQ: port to bind; 0 or absent: any. */
	readonly port?: number;
	/** ZeroMQ: names under which peers know it; default: the address it binds. */
	readonly advertise?: readonly string[];
	/** NATS: server URL. */
	readonly natsServer?: string;
	/** Pools; default: 64 slots of 64 KiB called "kv". */
	readonly pools?: readonly {
		name: string;
		slotBytes: number;
		slotCount: number;
	}[];
	/** Elements of framework memory per pool; default 16. */
	readonly frameworkElements?: number;
	/** Blocks the framework has in its own memory and lets peers read: pinned on request. */
	readonly frameworkBlocks?: readonly {
		key: Uint8Array;
		layout: readonly string[];
	}[];
	/** The adapter follows the inventory; default true. */
	readonly followInventory?: boolean;
	readonly operationTimeoutMs?: number;
	readonly abandonTimeoutMs?: number;
	readonly eagerConnect?: boolean;
	readonly capacityLowWatermarkPercent?: number;
	/** Whether a predecessor under the same endpoint must be dead; default: what the channel says. */
	readonly exclusiveEndpoint?: boolean;
	readonly integrity?: "off" | "verify";
	/** Its agent flips one bit of what the first write brings. */
	readonly flipsOneBit?: boolean;
	/** NIXL: peers reach its agent over TCP, through a relay that can break their connections. */
	readonly behindRelay?: boolean;
}

/** A block by key and layout; its bytes are computed. */
export interface BlockSpec {
	readonly key: Uint8Array;
	/** Default `["kv"]`. */
	readonly layout?: readonly string[];
	/** Delivery: which pieces of the block those of the layout are; default: the first, the second, and so on. */
	readonly pieces?: readonly number[];
}

/** One entry of a result, its bytes already compared in the worker. */
export interface EntryReport {
	readonly key: Uint8Array;
	readonly status: EntryStatus;
	readonly reason: FailureReason | undefined;
	/** True: all bytes are right. Undefined: there were none to compare. */
	readonly bytesOk: boolean | undefined;
	readonly releaseHandle: bigint | undefined;
}

/** Every command: its arguments and its result. */
export interface Commands {
	deposit: {
		args: [readonly BlockSpec[], { noEvict?: boolean }?];
		result: EntryReport[];
	};
	submitHint: { args: [string, string?]; result: undefined };
	discardHint: { args: [string]; result: undefined };
	query: { args: [readonly Uint8Array[], string?]; result: QueryResult[] };
	fetch: {
		args: [
			readonly Uint8Array[],
			{ requestId?: string; expectedLayout?: readonly string[] }?,
		];
		result: EntryReport[];
	};
	/** Delivers into fresh elements of framework memory. */
	deliver: { args: [readonly BlockSpec[], string?]; result: EntryReport[] };
	release: { args: [readonly bigint[]]; result: boolean[] };
	/** Waits until this many hint outcomes have come since the start, and gives all of them. */
	outcomes: { args: [number]; result: HintOutcomeReport[] };
	inventory: { args: []; result: InventoryEvent[] };
	learn: { args: [readonly Uint8Array[]]; result: undefined };
	forget: { args: [readonly Uint8Array[]]; result: undefined };
	lookups: { args: []; result: number };
	/** Stops or resumes polling by the owner. */
	poll: { args: [boolean]; result: undefined };
	/** Takes or gives back the state lock. */
	lock: { args: [boolean]; result: undefined };
	/** Resets the connections of those that write to it: see `behindRelay`. */
	resetConnections: { args: []; result: undefined };
	/** Blocks the event loop. */
	block: { args: [number]; result: undefined };
	stats: { args: []; result: KvcrStats };
	/** Resource usage: memory after a collection where exposed, CPU seconds so far. */
	usage: {
		args: [];
		result: {
			heapUsed: number;
			external: number;
			rss: number;
			cpuSeconds: number;
		};
	};
	info: {
		args: [];
		result: { endpoint: string; incarnation: string; agent: TransferAgentInfo };
	};
	close: { args: []; result: undefined };
}

export type CommandName = keyof Commands;

/** Parent → worker. */
export interface Request {
	readonly id: number;
	readonly name: CommandName;
	readonly args: readonly unknown[];
}

/** Worker → parent. */
export type Reply =
	| { readonly id: number; readonly ok: true; readonly value: unknown }
	| {
			readonly id: number;
			readonly ok: false;
			readonly error: { name: string; code: string; message: string };
	  };
