/** What every contender moves, and how blocks are named. The Python processes are told the same by the one that runs them. */

import { type BlockKey, blockKey } from "kvcr-core";

/** One shape of a transfer: so many blocks of such a size at once. */
export interface Shape {
	readonly name: string;
	readonly blocks: number;
	readonly blockBytes: number;
	/** Transfers per repetition. */
	readonly rounds: number;
}

/** Pools of the source and the target: the target has room for less than half, so no block is still there when it comes round again. */
export const POOLS = {
	small: { slotBytes: 64 << 10, sourceBlocks: 2_304, targetSlots: 1_100 },
	large: { slotBytes: 1 << 20, sourceBlocks: 208, targetSlots: 80 },
} as const;

export type PoolName = keyof typeof POOLS;

export const SHAPES: readonly Shape[] = [
	{ name: "1 x 64 KiB", blocks: 1, blockBytes: 64 << 10, rounds: 300 },
	{ name: "16 x 64 KiB", blocks: 16, blockBytes: 64 << 10, rounds: 100 },
	{ name: "64 x 1 MiB", blocks: 64, blockBytes: 1 << 20, rounds: 10 },
	{ name: "1,000 x 64 KiB", blocks: 1_000, blockBytes: 64 << 10, rounds: 6 },
];

/** The pool a shape's blocks live in. */
export function poolOf({ blockBytes }: Pick<Shape, "blockBytes">): PoolName {
	return blockBytes > POOLS.small.slotBytes ? "large" : "small";
}

/** Router hash of the n-th block of a pool: beyond 2^53, as real ones are. */
export function hashOf(pool: PoolName, index: number): bigint {
	return (pool === "small" ? 0xa0n << 56n : 0xb0n << 56n) + BigInt(index);
}

/** Key of a hash: 36 bytes, the hash in the last 8. */
export function keyOf(hash: bigint): BlockKey {
	const bytes = new Uint8Array(36).fill(0x5a);
	new DataView(bytes.buffer).setBigUint64(28, hash);
	return blockKey(bytes);
}

/** Sizes of the metadata section: blocks known, keys per query, blocks that come and go. */
export const METADATA = {
	slotBytes: 256,
	slots: 10_000,
	/** The first of them do not count: they run on code that is not compiled yet. */
	warmQueries: 20,
	queries: 100,
	deposits: 100_000,
	batch: 1_000,
} as const;

/** The section under load: hints in flight, blocks per hint, milliseconds that the owner is busy between two looks. */
export const LOAD = { inFlight: 8, blocks: 16, busyMs: 2, rounds: 60 } as const;
