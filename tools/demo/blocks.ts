/** The blocks of the demo: what the source has, and what their bytes are. Both processes know it, so bytes can be compared. */
import { createHash } from "node:crypto";
import { type BlockKey, blockKey } from "kvcr-core";

/** Pools of both processes. */
export const POOLS = [
	{ name: "kv", slotBytes: 65_536, slotCount: 64 },
	{ name: "indexer", slotBytes: 4_096, slotCount: 64 },
] as const;

/** A block of the demo. */
export interface DemoBlock {
	readonly key: BlockKey;
	readonly hash: bigint;
	/** Labels of its pieces. */
	readonly layout: readonly string[];
}

/**
 * A full key: 24 bytes that make it unique, then the 8 bytes of its router hash. Real engines do much the same: a block hash
 * is longer than the 64 bits a router passes around.
 */
function block(
	hash: bigint,
	name: string,
	layout: readonly string[],
): DemoBlock {
	const bytes = Buffer.alloc(32);
	createHash("sha256").update(name).digest().copy(bytes, 0, 0, 24);
	bytes.writeBigUInt64BE(hash, 24);
	return { key: blockKey(new Uint8Array(bytes)), hash, layout };
}

/** What the source holds. Two of its keys collide on hash 7777, and one block has three pieces in two pools. */
export const SOURCE_BLOCKS: readonly DemoBlock[] = [
	block(42n, "small hash", ["kv"]),
	block(13835058055282163713n, "above 2^53", ["kv"]),
	block(13835058055282163714n, "its neighbor, equal to it as a double", ["kv"]),
	block(18446744073709551615n, "largest hash", ["kv"]),
	block(9007199254740993n, "2^53 + 1, in three pieces", [
		"kv",
		"kv",
		"indexer",
	]),
	block(7777n, "collision, one side", ["kv"]),
	block(7777n, "collision, other side", ["kv"]),
];

/** The block an unrelated request works on at the destination. */
export const CARRIER_BLOCK = block(1n, "the carrier's own block", ["kv"]);

/** The bytes of one piece. */
export function pieceBytes(
	key: Uint8Array,
	piece: number,
	length: number,
): Uint8Array {
	const bytes = new Uint8Array(length);
	let state = (key[0] ?? 0) * 7919 + (key[31] ?? 0) * 131 + piece * 17 + 1;
	for (let i = 0; i < length; i += 1) {
		state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
		bytes[i] = state >>> 16;
	}
	return bytes;
}

/** Bytes of a slot for a label. */
export function slotBytes(label: string): number {
	return POOLS.find((pool) => pool.name === label)?.slotBytes ?? 0;
}

/** What a hint that names a hash may lead to, given the blocks above; the first is the usual one. */
export function expectedOutcomes(hash: bigint): readonly string[] {
	const candidates = SOURCE_BLOCKS.filter((one) => one.hash === hash);
	if (candidates.length === 0) return ["not_found"];
	// Of several actions that name a block, one places it; the others join in, or come later.
	return candidates.length === 1
		? ["placed", "already_resident"]
		: ["ambiguous_hash"];
}
