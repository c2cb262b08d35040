/** What is on record about memory: who asked for what, and which writes may touch it. */
import type { Residency } from "../../cache/index.js";
import type { MemoryRegion, OpHandle } from "../../ports/index.js";
import type { Wiring } from "../../wiring.js";
import type { ScriptedWrite } from "../scripted-write.js";
import type { SimBlock } from "./blocks.js";
import type { FrameworkElement, SimFramework } from "./framework.js";

/** What the oracle must know of an instance. */
export interface Watched {
	/** Unlike that of any other instance of the run. */
	readonly name: string;
	readonly parts: Wiring;
	readonly framework: SimFramework;
	/** Regions of the managed pools, by label. */
	readonly pools: ReadonlyMap<string, MemoryRegion>;
	/** The process exists, and its agent has not ended. */
	readonly alive: boolean;
	readonly book: MemoryBook;
}

/** A place a write was asked to fill. */
export type Destination =
	| {
			readonly kind: "slot";
			readonly region: MemoryRegion;
			readonly element: number;
			readonly residency: Residency | undefined;
	  }
	| {
			readonly kind: "framework";
			readonly region: MemoryRegion;
			readonly element: number;
			readonly owner: object | undefined;
	  };

/** A `start_write` as its sender sent it. */
export interface Ask {
	readonly handle: OpHandle;
	readonly source: string;
	readonly move: boolean;
	readonly allowFramework: boolean;
	readonly texts: readonly string[];
	readonly destinations: readonly (readonly Destination[])[];
	/** Writes posted for it. */
	readonly writes: LiveWrite[];
}

/** A place a write reads. */
export type Source =
	| {
			readonly kind: "slot";
			readonly residency: Residency;
			readonly region: MemoryRegion;
			readonly element: number;
	  }
	| {
			readonly kind: "framework";
			readonly element: FrameworkElement;
			readonly block: SimBlock | undefined;
	  };

/** A write and what it may touch. */
export interface LiveWrite {
	readonly write: ScriptedWrite;
	readonly from: Watched;
	readonly to: Watched | undefined;
	readonly ask: Ask;
	readonly indices: readonly number[];
	readonly sources: readonly Source[];
	readonly targets: readonly Destination[];
	/** The source asked the agent to cancel it. */
	cancelled: boolean;
	/** All bytes landed, and the notification left. */
	done: boolean;
	/** The notification reached its agent at once, once. */
	plainlyNotified: boolean;
}

/** What the oracle keeps per instance. */
export class MemoryBook {
	/** Residency that last got each slot, by region and slot. */
	readonly slots = new Map<MemoryRegion, (Residency | undefined)[]>();
	/** By handle: every request this instance sent. */
	readonly asks = new Map<OpHandle, Ask>();
	/** Keys that anybody asked of this instance with framework memory allowed. */
	readonly pinnable = new Set<string>();
	/** Residencies a completed move has written out of here. */
	readonly movedOut = new WeakSet<Residency>();
	/** How often each block became ready here. */
	readonly ready = new Map<string, number>();
}
