/** One batch of KV events as vLLM encodes it, with the places of its block hashes, so that it can be varied quickly. */
import { encode } from "@msgpack/msgpack";

/** Tokens per block. */
const BLOCK_SIZE = 16;

export interface EventPayload {
	readonly payload: Uint8Array;
	/** Offset of each 32-byte hash. */
	readonly hashesAt: readonly number[];
}

/** `events` stores of `hashes` blocks each. */
export function eventPayload(events: number, hashes: number): EventPayload {
	let marker = 0;
	const mark = () => {
		const hash = new Uint8Array(32).fill(0xa5);
		new DataView(hash.buffer).setUint32(28, marker++);
		return hash;
	};
	const tokens = Array.from(
		{ length: hashes * BLOCK_SIZE },
		(_, i) => (i * 7919) % 150_000,
	);
	const list = Array.from({ length: events }, () => ({
		type: "BlockStored",
		block_hashes: Array.from({ length: hashes }, mark),
		parent_block_hash: new Uint8Array(32).fill(0x5a),
		token_ids: tokens,
		block_size: BLOCK_SIZE,
		lora_id: null,
		medium: "GPU",
		group_idx: 0,
	}));
	const payload = encode([1_700_000_000.5, list, 0]);
	const buffer = Buffer.from(
		payload.buffer,
		payload.byteOffset,
		payload.length,
	);
	const hashesAt: number[] = [];
	let at = 0;
	for (let i = 0; i < events * hashes; i++) {
		const pattern = Buffer.alloc(32, 0xa5);
		pattern.writeUInt32BE(i, 28);
		at = buffer.indexOf(pattern, at);
		hashesAt.push(at);
	}
	return { payload, hashesAt };
}
