/** What the processes of the flood bench know: blocks, channels, and what they tell each other. */
import {
	type BlockKey,
	blockKey,
	type ControlChannel,
	HashNotFoundError,
	type KeyAdapter,
	type RouterHash,
	routerHash,
} from "kvcr-core";
import { NatsControlChannel } from "kvcr-transport-nats";
import { ZmqControlChannel } from "kvcr-transport-zmq";

export type ChannelKind = "zmq" | "nats";

/** Where a process finds its peers. */
export interface Place {
	readonly channel: ChannelKind;
	/** URL of the NATS server. */
	readonly nats: string;
}

/** Bytes of a block. */
export const BLOCK_BYTES = 64 << 10;
/** Blocks the source holds: several times the destination's room, so none is there still. */
export const SOURCE_BLOCKS = 1024;
export const TARGET_SLOTS = 128;

/** The hash of the n-th block. */
export function hashOf(index: number): bigint {
	return 0xa000_0000_0000_0000n + BigInt(index % SOURCE_BLOCKS);
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
		if (hash >> 60n !== 0xan) throw new HashNotFoundError(hash);
		return keyOf(hash);
	},
};

/** Makes a channel. */
export function makeChannel(
	{ channel, nats }: Place,
	peer: string,
): ControlChannel {
	return channel === "zmq"
		? new ZmqControlChannel({ port: 0 })
		: new NatsControlChannel({ peer, connect: { servers: nats } });
}
