/** The blocks of a simulation: their keys, their layouts, and the one content each of them has. */
import {
	AmbiguousHashError,
	type BlockKey,
	blockKey,
	HashNotFoundError,
	type KeyAdapter,
	keyText,
	type RouterHash,
	routerHash,
} from "../../ports/index.js";

/** Pools of every simulated instance: name to bytes of a slot. */
export const POOL_BYTES: Readonly<Record<string, number>> = { kv: 32, idx: 16 };

/** Layouts of blocks; a key always has the same. */
const LAYOUTS: readonly (readonly string[])[] = [
	["kv"],
	["kv", "idx"],
	["kv", "kv"],
];

/** One block. */
export interface SimBlock {
	/** Position in the universe of blocks; what a log line calls it. */
	readonly id: number;
	readonly key: BlockKey;
	readonly text: string;
	readonly hash: RouterHash;
	readonly layout: readonly string[];
	/** The right bytes of each piece, in layout order. */
	readonly bytes: readonly Uint8Array[];
}

/** Every block of a run. Blocks `2 n` and `2 n + 1` have the same router hash. */
export class BlockUniverse {
	readonly blocks: readonly SimBlock[];
	readonly #byText: ReadonlyMap<string, SimBlock>;

	/** @param hashes Number of router hashes; there are twice as many blocks. */
	constructor(hashes: number) {
		this.blocks = Array.from({ length: hashes * 2 }, (_, id) => makeBlock(id));
		this.#byText = new Map(this.blocks.map((block) => [block.text, block]));
	}

	/** The block of an ID; any integer will do. */
	at(id: number): SimBlock {
		return this.blocks[id % this.blocks.length] as SimBlock;
	}

	/** The block of a key, when the key is one of ours. */
	find(text: string): SimBlock | undefined {
		return this.#byText.get(text);
	}
}

/** The pieces a request by labels selects, as positions in the layout. */
export function positionsOf(
	block: SimBlock,
	labels: readonly string[],
): number[] {
	if (labels.length === block.layout.length)
		return block.layout.map((_, index) => index);
	return labels.map((label) => block.layout.indexOf(label));
}

/** True when two arrays hold the same bytes. */
export function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
	return (
		left.byteLength === right.byteLength && Buffer.compare(left, right) === 0
	);
}

function makeBlock(id: number): SimBlock {
	// Beyond 2^53 every now and then, as router hashes are.
	const index = BigInt(id >> 1);
	const hash = routerHash(
		index % 3n === 0n ? 0xf000_0000_0000_0001n + index : index + 1n,
	);
	const raw = Buffer.alloc(12);
	raw.writeUInt32BE(id & 1);
	raw.writeBigUInt64BE(hash, 4);
	const key = blockKey(new Uint8Array(raw));
	const layout = LAYOUTS[(id >> 1) % LAYOUTS.length] as readonly string[];
	const bytes = layout.map((label, piece) => {
		const size = POOL_BYTES[label] as number;
		return Uint8Array.from(
			{ length: size },
			(_, i) => (id * 37 + piece * 101 + i * 7 + 11) & 0xff,
		);
	});
	return { id, key, text: keyText(key), hash, layout, bytes };
}

/** How an adapter misbehaves, if it does. */
export type AdapterFault = "throw" | "promise" | "wrong_key" | undefined;

/** A reverse map that knows what it was told, and fails when asked to. */
export class SimAdapter implements KeyAdapter<BlockKey> {
	readonly #known = new Map<bigint, Set<SimBlock>>();
	readonly #fault: (method: "decode" | "lookup") => AdapterFault;
	readonly #universe: BlockUniverse;

	constructor(
		universe: BlockUniverse,
		fault: (method: "decode" | "lookup") => AdapterFault,
	) {
		this.#universe = universe;
		this.#fault = fault;
	}

	learn(block: SimBlock): void {
		const known = this.#known.get(block.hash) ?? new Set();
		known.add(block);
		this.#known.set(block.hash, known);
	}

	forget(block: SimBlock): void {
		this.#known.get(block.hash)?.delete(block);
	}

	/** The hash now names this block and no other. */
	rebind(block: SimBlock): void {
		this.#known.set(block.hash, new Set([block]));
	}

	encode(frameworkKey: BlockKey): BlockKey {
		return frameworkKey;
	}

	decode(key: BlockKey): RouterHash {
		if (this.#fault("decode") !== undefined)
			throw new Error("simulated: decode");
		return routerHash(
			Buffer.from(key.buffer, key.byteOffset, key.byteLength).readBigUInt64BE(
				key.byteLength - 8,
			),
		);
	}

	decodeFromRouter(hash: RouterHash): BlockKey {
		const known = this.#known.get(hash);
		switch (this.#fault("lookup")) {
			case "throw":
				throw new Error("simulated: decodeFromRouter");
			case "promise":
				return Promise.reject(new Error("simulated")) as unknown as BlockKey;
			case "wrong_key":
				return this.#universe.at(Number(hash & 0xffn)).key;
			case undefined:
		}
		if (known === undefined || known.size === 0)
			throw new HashNotFoundError(hash);
		if (known.size > 1) throw new AmbiguousHashError(hash, known.size);
		const [only] = known;
		return (only as SimBlock).key;
	}
}
