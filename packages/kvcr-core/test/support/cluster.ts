/** Instances of one process on a manual clock: real parts above scripted ports, so that a test decides every order. */
import {
	AmbiguousHashError,
	type BlockKey,
	blockKey,
	HashNotFoundError,
	type KeyAdapter,
	Kvcr,
	type KvcrOptions,
	keyText,
	type OperationResult,
	type RouterHash,
	routerHash,
	silentLogger,
} from "../../src/index.js";
import {
	ManualClock,
	MemoryFabric,
	MemoryNetwork,
	type ScriptedAgentOptions,
	type ScriptedTransferAgent,
} from "../../src/testing/index.js";

/** Bytes of a slot in pool "kv". */
export const SLOT = 64;
/** Bytes of a slot in pool "indexer". */
export const SMALL = 16;

/** A key whose last 8 bytes are its router hash; `salt` makes colliding keys. */
export function key(hash: bigint, salt = 0): BlockKey {
	const bytes = Buffer.alloc(12);
	bytes.writeUInt32BE(salt);
	bytes.writeBigUInt64BE(hash, 4);
	return blockKey(new Uint8Array(bytes));
}

/** Recognizable bytes for a block. */
export function content(block: Uint8Array, size = SLOT, piece = 0): Uint8Array {
	const bytes = new Uint8Array(size);
	for (let i = 0; i < size; i += 1)
		bytes[i] =
			((block[i % block.length] ?? 0) * 31 + i + piece * 101 + 7) & 0xff;
	return bytes;
}

/** Knows the keys it was told of. */
export class ListAdapter implements KeyAdapter<BlockKey> {
	readonly known = new Map<bigint, Map<string, BlockKey>>();
	/** Hashes looked up so far. */
	readonly lookups: bigint[] = [];

	learn(...keys: readonly BlockKey[]): void {
		for (const one of keys) {
			const hash = this.decode(one);
			const keysOfHash = this.known.get(hash) ?? new Map<string, BlockKey>();
			keysOfHash.set(keyText(one), one);
			this.known.set(hash, keysOfHash);
		}
	}

	forget(one: BlockKey): void {
		this.known.get(this.decode(one))?.delete(keyText(one));
	}

	encode(frameworkKey: BlockKey): BlockKey {
		return frameworkKey;
	}

	decode(one: BlockKey): RouterHash {
		return routerHash(
			Buffer.from(one.buffer, one.byteOffset, one.byteLength).readBigUInt64BE(
				one.byteLength - 8,
			),
		);
	}

	decodeFromRouter(hash: RouterHash): BlockKey {
		this.lookups.push(hash);
		const keys = [...(this.known.get(hash)?.values() ?? [])];
		if (keys.length > 1) throw new AmbiguousHashError(hash, keys.length);
		const [only] = keys;
		if (only === undefined) throw new HashNotFoundError(hash);
		return only;
	}
}

/** One instance of a cluster, with what a test wants to look at. */
export interface Peer {
	readonly name: string;
	readonly kvcr: Kvcr;
	readonly agent: ScriptedTransferAgent;
	readonly adapter: ListAdapter;
	readonly endpoint: string;
	/** Results collected so far. */
	readonly results: OperationResult[];
	/** False: `Cluster.run` does not poll this owner. */
	polling: boolean;
}

/** Settings of a peer beyond the defaults of a cluster. */
export interface PeerOptions extends Partial<KvcrOptions> {
	readonly agentOptions?: ScriptedAgentOptions;
	readonly aliases?: readonly string[];
	readonly slots?: number;
}

/** Several instances that share a clock, a network and a fabric. */
export class Cluster {
	readonly clock = new ManualClock();
	readonly network = new MemoryNetwork({ clock: this.clock });
	readonly fabric = new MemoryFabric({ clock: this.clock });
	readonly peers: Peer[] = [];

	async peer(name: string, options: PeerOptions = {}): Promise<Peer> {
		const { agentOptions, aliases, slots = 16, ...rest } = options;
		const agent = this.fabric.agent(`agent-${name}`, agentOptions);
		const adapter = new ListAdapter();
		const channel = this.network.channel(name, aliases && { aliases });
		const kvcr = await Kvcr.create({
			agent,
			channel,
			adapter,
			pools: [{ name: "kv", slotBytes: SLOT, slotCount: slots }],
			clock: this.clock,
			logger: silentLogger,
			exclusiveEndpoint: true,
			...rest,
		});
		const peer: Peer = {
			name,
			kvcr,
			agent,
			adapter,
			endpoint: this.network.endpoint(name),
			results: [],
			polling: true,
		};
		this.peers.push(peer);
		return peer;
	}

	/** Runs everything that is due now, and polls the owners until nothing moves any more. */
	settle(): void {
		for (let round = 0; round < 200; round += 1) {
			const ran = this.clock.advance(0);
			const before = this.peers.map((peer) => peer.results.length);
			this.poll();
			const moved = this.peers.some(
				(peer, at) => peer.results.length !== before[at],
			);
			if (ran === 0 && !moved && this.clock.nextAt !== this.clock.now()) return;
		}
		throw new Error("the cluster does not come to rest");
	}

	/** Lets time pass in small steps, everything running. */
	run(ms: number, step = 10): void {
		const end = this.clock.now() + ms;
		this.settle();
		while (this.clock.now() < end) {
			this.clock.advance(Math.min(step, end - this.clock.now()));
			this.settle();
		}
	}

	/** One poll of every owner that polls. */
	poll(): void {
		for (const peer of this.peers)
			if (peer.polling) peer.results.push(...peer.kvcr.pollCompleted());
	}

	/** Deposits blocks with recognizable bytes and makes the adapter know them. */
	deposit(peer: Peer, ...keys: readonly BlockKey[]): void {
		peer.kvcr.deposit(
			keys.map((one) => ({
				key: one,
				pieces: [{ label: "kv", bytes: content(one) }],
			})),
		);
		peer.adapter.learn(...keys);
		this.settle();
	}

	/** Closes every instance. */
	async close(): Promise<void> {
		const closing = this.peers.map((peer) => peer.kvcr.close());
		await this.clock.advanceAsync(10_000);
		await Promise.all(closing);
	}
}

/** An envelope with one `kv.fetch` action. */
export function hint(
	source: string | undefined,
	hashes: readonly bigint[],
	more: object = {},
): object {
	return {
		protocol_version: "0.1",
		message_id: "m",
		actions: [
			{
				action_id: "a",
				action_type: "kv.fetch",
				action_version: "1.0",
				payload: {
					...(source !== undefined && { source_control_endpoint: source }),
					block_hashes: hashes,
					...more,
				},
			},
		],
	};
}
