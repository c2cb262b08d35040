/** What a test asks of a manager process, and what comes back. Travels by structured clone. */
import type { HintOutcomeReport } from "kvcr-core";
import type { VllmKvcrTierStats } from "kvcr-vllm-adapter";
import type { PublisherStats } from "kvcr-vllm-adapter/events";
import type { WorkerReport } from "../../tools/compose/inventory.js";
import type { AgentKind } from "../harness/commands.js";
import type { EventEncoding } from "./engine/event-encoding.js";
import type { BatchFate } from "./engine/event-publisher.js";
import type { HashBytes } from "./engine/hashing.js";
import type { EngineRequest, RequestReport } from "./engine/requests.js";

/** How to set a manager up. */
export interface ManagerOptions {
	readonly name: string;
	readonly agent: AgentKind;
	/** Length of block hashes; default 32. */
	readonly hashBytes?: HashBytes;
	/** KV cache groups; default 1. */
	readonly groups?: number;
	/** KV cache events; default true. */
	readonly events?: boolean;
	/**
	 * Publishes events over ZeroMQ, the engine's and the tier's, and feeds the reverse map from there alone. Default: they are
	 * not published, and the tier's inventory feeds the map.
	 */
	readonly eventStream?: EventEncoding;
	/** Blocks of the primary tier; default 32. */
	readonly primaryBlocks?: number;
	/** Blocks of managed memory; default 32. */
	readonly managedBlocks?: number;
	readonly operationTimeoutMs?: number;
}

/** Figures of a manager. */
export interface ManagerStats {
	readonly tier: VllmKvcrTierStats;
	readonly engine: { readonly requests: number; readonly jobs: number };
	/** Blocks of the primary tier that something keeps in place. */
	readonly held: number;
	/** Job results the engine did not know. */
	readonly strayResults: number;
	/** Store jobs made for peers so far. */
	readonly servedJobs: number;
	/** Questions to the reverse map so far. */
	readonly mapLookups: number;
	/** Control messages received, by type. */
	readonly received: Readonly<Record<string, number>>;
}

/** Every command: its arguments and its result. */
export interface Commands {
	/** Runs a request to its end. */
	run: { args: [EngineRequest]; result: RequestReport };
	/** Router hashes of a request's blocks, one per block and group. */
	hashes: { args: [EngineRequest]; result: bigint[] };
	/** What the engine published so far, as a router gets it. */
	report: { args: []; result: WorkerReport };
	/** Waits until this many outcomes of independent hints have come since the start, and gives all of them. */
	outcomes: { args: [number]; result: HintOutcomeReport[] };
	/** What becomes of the batches of events from now on. */
	events: { args: [BatchFate]; result: undefined };
	/** Counters of the event intake. */
	intake: { args: []; result: PublisherStats };
	/** Forgets the prefix cache of the primary tier. */
	reset: { args: []; result: undefined };
	/** Stops or resumes the engine's steps. */
	step: { args: [boolean]; result: undefined };
	stats: { args: []; result: ManagerStats };
	info: { args: []; result: { endpoint: string } };
	shutdown: { args: []; result: undefined };
}

export type CommandName = keyof Commands;

/** Parent → manager. */
export interface Request {
	readonly id: number;
	readonly name: CommandName;
	readonly args: readonly unknown[];
}

/** Manager → parent. */
export type Reply =
	| { readonly id: number; readonly ok: true; readonly value: unknown }
	| { readonly id: number; readonly ok: false; readonly error: string };
