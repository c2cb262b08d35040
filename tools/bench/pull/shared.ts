/** What both processes of the pull bench know. */
import {
	type BlockKey,
	blockKey,
	HashNotFoundError,
	type KeyAdapter,
	type RouterHash,
	routerHash,
	type TransferAgent,
} from "kvcr-core";
import { PortableTransferAgent } from "kvcr-core/portable";

export type AgentKind = "portable" | "nixl";

/** One shape of transfers: so many blocks of such a size per hint. */
export interface Shape {
	readonly name: string;
	readonly blocks: number;
	readonly blockBytes: number;
	/** Hints per repetition. */
	readonly rounds: number;
	/** Hints before the first repetition: a worker runs for days, and its code is compiled after some thousand calls. */
	readonly warmUp: number;
}

export const SHAPES: readonly Shape[] = [
	{
		name: "1 x 64 KiB",
		blocks: 1,
		blockBytes: 64 << 10,
		rounds: 400,
		warmUp: 8000,
	},
	{
		name: "16 x 64 KiB",
		blocks: 16,
		blockBytes: 64 << 10,
		rounds: 40,
		warmUp: 500,
	},
	{ name: "64 x 1 MiB", blocks: 64, blockBytes: 1 << 20, rounds: 6, warmUp: 6 },
];

/** Blocks of each size the source holds: several times what the destination has room for, so no block is still there. */
export const SOURCE_BLOCKS = { small: 1024, large: 256 };
/** Slots of the destination. */
export const TARGET_SLOTS = { small: 192, large: 96 };

/** Pools by block size. */
export function poolOf(blockBytes: number): "small" | "large" {
	return blockBytes > 64 << 10 ? "large" : "small";
}

/** Pools of one side. */
export function pools(slots: { small: number; large: number }) {
	return [
		{ name: "small", slotBytes: 64 << 10, slotCount: slots.small },
		{ name: "large", slotBytes: 1 << 20, slotCount: slots.large },
	];
}

/** The hash of the n-th block of a pool: large numbers, as real ones are. */
export function hashOf(pool: "small" | "large", index: number): bigint {
	return (
		(pool === "small" ? 0xa000_0000_0000_0000n : 0xb000_0000_0000_0000n) +
		BigInt(index)
	);
}

/** The key of a hash: 36 bytes, as vLLM's are. */
export function keyOf(hash: bigint): BlockKey {
	const bytes = Buffer.alloc(36, 0x5a);
	bytes.writeBigUInt64BE(hash, 24);
	return blockKey(new Uint8Array(bytes));
}

/** Knows every block of the bench. */
export const adapter: KeyAdapter<BlockKey> = {
	encode: (key) => key,
	decode: (key) =>
		routerHash(new DataView(key.buffer, key.byteOffset).getBigUint64(24)),
	decodeFromRouter(hash: RouterHash) {
		if (hash >> 60n !== 0xan && hash >> 60n !== 0xbn)
			throw new HashNotFoundError(hash);
		return keyOf(hash);
	},
};

/** Makes an agent. */
export async function createAgent(kind: AgentKind): Promise<TransferAgent> {
	if (kind === "portable") return PortableTransferAgent.create();
	const { NixlTransferAgent } = await import("kvcr-nixl");
	return NixlTransferAgent.create();
}
