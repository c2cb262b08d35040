/**
 * Framework pins: an engine's promise that some of its host memory stays valid and unchanged until released. All calls
 * happen on the owner's side, inside API calls and `pollCompleted()`.
 */
import type { BlockKey } from "./names.js";
import type { MemoryRegion } from "./transfer-agent.js";

/** Name of one pin request, chosen by the framework. */
export type PinRequestId = bigint;
/** Name of one granted pin, chosen by the framework. */
export type PinHandle = string;

/** One piece of a block in framework memory. `label` is the piece's label in the block's layout. */
export interface FrameworkPiece {
	/** Label of the piece: its pool, possibly with a part of it. */
	readonly label: string;
	/** Registered region that has it. */
	readonly region: MemoryRegion;
	/** Index in the region. */
	readonly element: number;
}

/** A granted pin: per key its pieces in layout order, or `undefined` for a key the framework does not have. */
export interface GrantedPin {
	/** Names the pin when it is released. */
	readonly handle: PinHandle;
	/** The memory of every key that is pinned. */
	readonly blocks: ReadonlyMap<BlockKey, readonly FrameworkPiece[] | undefined>;
}

/** The framework's side of pinning. Methods that throw fail only the operation that called them. */
export interface FrameworkPins {
	/** Optional: called once with a function to call when `pollResults` has something, for frameworks that can tell. */
	attach?(wake: () => void): void;
	/** Asks for a pin on the keys the framework has among these. The answer comes from `pollResults`. */
	request(keys: readonly BlockKey[]): PinRequestId;
	/** Takes the answers that are ready; `undefined` as result means that nothing could be pinned. */
	pollResults(): Iterable<readonly [PinRequestId, GrantedPin | undefined]>;
	/** Withdraws a request that was not answered yet. Its answer may still come and is then released at once. */
	cancel(request: PinRequestId): void;
	/** Gives a pin back. False or a throw means not accepted yet: it is asked again later. */
	release(handle: PinHandle): boolean;
}
