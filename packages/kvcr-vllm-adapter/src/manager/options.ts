/** Settings and figures of the tier. */
import {
	InvalidArgumentError,
	type KvcrOptions,
	type KvcrStats,
	type MemoryRegion,
} from "kvcr-core";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import type { KvEventsConfig } from "./contract.js";

/** The one pool of a vLLM engine, and the label of a block's one piece. */
export const POOL = "";

/** What {@link VllmKvcrTier.create} takes; the settings of core that are not decided by the tier are passed on. */
export interface VllmKvcrTierOptions
	extends Omit<
		KvcrOptions,
		"adapter" | "pools" | "frameworkRegions" | "pins" | "inventorySink"
	> {
	/**
	 * Memory of the primary tier, made by `agent` with the empty label: element b is block b, all pieces of a vLLM block in a
	 * row.
	 */
	readonly primary: MemoryRegion;
	/** Blocks of managed memory (`secondary_g2_slots`). 0: blocks of the primary tier can be served, none are kept here. */
	readonly managedBlocks: number;
	/** The engine's settings for KV cache events. */
	readonly kvEvents: KvEventsConfig;
	/** Reverse map to feed and to resolve router hashes with. @default a new one, where events are enabled */
	readonly map?: ReverseHashMap;
	/** Longest `drainJobs` waits, in milliseconds. @default twice `abandonTimeoutMs`, at least 10000 */
	readonly drainTimeoutMs?: number;
}

/** A snapshot of a tier. */
export interface VllmKvcrTierStats {
	/** Jobs of the engine. */
	readonly jobs: {
		/** Jobs that are being carried out. */
		readonly running: number;
		/** Failed jobs that are not reported yet, because their blocks may still be written. */
		readonly withheld: number;
	};
	/** Work of the engine on behalf of peers. */
	readonly pins: {
		/** Requests of peers that wait for `serveExternalRequests`. */
		readonly pending: number;
		/** Store jobs that keep blocks in place for peers. */
		readonly active: number;
		/** Requests of peers the engine failed to serve. */
		readonly failed: number;
	};
	/** Hints that came with requests. */
	readonly hints: {
		/** Handed to KVCR. */
		readonly submitted: number;
		/** Refused, because they are no valid envelope. */
		readonly malformed: number;
	};
	/** Completions of operations that were started past the tier. */
	readonly foreignCompletions: number;
	/** The instance below the tier. */
	readonly kvcr: KvcrStats;
}

/** @throws InvalidArgumentError naming the first unusable setting that the tier itself decides about. */
export function checkOptions(options: VllmKvcrTierOptions): void {
	const operation = "VllmKvcrTier.create";
	const { primary, managedBlocks, kvEvents, drainTimeoutMs } = options ?? {};
	if (typeof primary?.element !== "function" || primary.label !== POOL)
		throw new InvalidArgumentError(
			operation,
			"primary",
			primary?.label ?? primary,
			'a memory region of the agent, with the label ""',
		);
	if (!Number.isSafeInteger(managedBlocks) || managedBlocks < 0)
		throw new InvalidArgumentError(
			operation,
			"managedBlocks",
			managedBlocks,
			"a non-negative integer",
		);
	for (const name of ["enableKvCacheEvents", "selfDescribingKvEvents"] as const)
		if (typeof kvEvents?.[name] !== "boolean")
			throw new InvalidArgumentError(
				operation,
				`kvEvents.${name}`,
				kvEvents?.[name],
				"a boolean",
			);
	if (
		kvEvents.enableKvCacheEvents &&
		!kvEvents.selfDescribingKvEvents &&
		managedBlocks > 0
	)
		throw new InvalidArgumentError(
			operation,
			"kvEvents.selfDescribingKvEvents",
			false,
			"true where events are enabled and memory is managed (self_describing_kv_events of vLLM)",
		);
	if (drainTimeoutMs !== undefined && !(drainTimeoutMs > 0))
		throw new InvalidArgumentError(
			operation,
			"drainTimeoutMs",
			drainTimeoutMs,
			"a positive number",
		);
}
