/** Instances of one process on a manual clock: real parts above scripted ports, so that a test decides every order. */
import {
	AmbiguousHashError,
	type BlockKey,
	blockKey,
	type EntryResult,
	HashNotFoundError,
	type InventoryEvent,
	type KeyAdapter,
	type Kvcr,
	type KvcrOptions,
	keyText,
	type Logger,
	type MemoryRegion,
	type OperationResult,
	type OpHandle,
	type RouterHash,
	routerHash,
	type TransferError,
} from "../../src/index.js";
import { createWired } from "../../src/kvcr.js";
import {
	ManualClock,
	type MemoryChannel,
	MemoryFabric,
	MemoryNetwork,
	type ScriptedAgentOptions,
	type ScriptedTransferAgent,
} from "../../src/testing/index.js";

import { type Wiring, wire } from "../../src/wiring.js";

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
	/** Framework memory, label "kv", where the peer was given some. */
	readonly framework?: MemoryRegion;
	/** Inventory events so far. */
	readonly inventory?: InventoryEvent[];
	/** Reports about memory at risk so far. */
	readonly reports?: TransferError[];
	/** Messages of warnings so far. */
	readonly warnings?: string[];
	/** What the instance is made of, to be looked at. */
	readonly parts?: Wiring;
	/** False: `Cluster.run` does not poll this owner. */
	polling: boolean;
}

/** Settings of a peer beyond the defaults of a cluster. */
export interface PeerOptions extends Partial<KvcrOptions> {
	readonly agentOptions?: ScriptedAgentOptions;
	readonly aliases?: readonly string[];
	readonly slots?: number;
	/** Elements of framework memory to register; default none. */
	readonly frameworkElements?: number;
}

/** Several instances that share a clock, a network and a fabric. */
export class Cluster {
	readonly clock = new ManualClock();
	readonly network = new MemoryNetwork({ clock: this.clock });
	readonly fabric = new MemoryFabric({ clock: this.clock });
	readonly peers: Peer[] = [];
	readonly #channels = new Map<Peer, MemoryChannel>();

	async peer(name: string, options: PeerOptions = {}): Promise<Peer> {
		const {
			agentOptions,
			aliases,
			slots = 16,
			frameworkElements = 0,
			...rest
		} = options;
		const agent = this.fabric.agent(`agent-${name}`, agentOptions);
		const framework =
			frameworkElements === 0
				? undefined
				: await agent.createRegion({
						label: "kv",
						elementBytes: SLOT,
						elementCount: frameworkElements,
					});
		const inventory: InventoryEvent[] = [];
		const reports: TransferError[] = [];
		const warnings: string[] = [];
		const adapter = new ListAdapter();
		const channel = this.network.channel(name, aliases && { aliases });
		let parts: Wiring | undefined;
		const settings: KvcrOptions = {
			agent,
			channel,
			adapter,
			pools: [{ name: "kv", slotBytes: SLOT, slotCount: slots }],
			clock: this.clock,
			logger: warningsTo(warnings),
			exclusiveEndpoint: true,
			frameworkRegions: framework && [framework],
			inventorySink: (event) => void inventory.push(event),
			onTransferReport: (report) => void reports.push(report),
			...rest,
		};
		const kvcr = await createWired(settings, (...args) => {
			parts = wire(...args);
			return parts;
		});
		const peer: Peer = {
			name,
			kvcr,
			agent,
			adapter,
			endpoint: this.network.endpoint(name),
			results: [],
			polling: true,
			inventory,
			reports,
			warnings,
			...(parts !== undefined && { parts }),
			...(framework !== undefined && { framework }),
		};
		this.#channels.set(peer, channel);
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

	/** The process of a peer dies: nothing of it answers any more, and it says nothing about it. */
	crash(peer: Peer): void {
		peer.agent.crash();
		void this.#channels.get(peer)?.close();
		this.peers.splice(this.peers.indexOf(peer), 1);
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

/** Entries of an operation that has completed; undefined while it has not. */
export function entriesOf(
	peer: Peer,
	handle: OpHandle,
): readonly EntryResult[] | undefined {
	return peer.results.find((one) => one.handle === handle)?.entries;
}

/** Per entry its status, or the reason where it failed. */
export function outcomesOf(
	peer: Peer,
	handle: OpHandle,
): readonly string[] | undefined {
	return entriesOf(peer, handle)?.map((entry) => entry.reason ?? entry.status);
}

/** Ends the claims an operation gave. */
export function releaseAll(peer: Peer, handle: OpHandle): void {
	peer.kvcr.release(
		entriesOf(peer, handle)?.flatMap((entry) => entry.releaseHandle ?? []) ??
			[],
	);
}

/** What must be zero in an instance that has come to rest: no claim, pin, advice, operation, transfer or quarantined slot. */
export function leftovers(peer: Peer): object {
	const { cache, operations, transfers, pins, advice, hintsPending } =
		peer.kvcr.stats();
	return {
		claims: cache?.claims,
		handles: cache?.handles,
		filling: cache?.filling,
		discarding: cache?.discarding,
		waiting: cache?.waiting,
		operations,
		transfers,
		pins,
		advice,
		hintsPending,
	};
}

/** What {@link leftovers} gives for an instance that holds nothing. */
export const NOTHING_LEFT = {
	claims: 0,
	handles: 0,
	filling: 0,
	discarding: 0,
	waiting: 0,
	operations: { open: 0, uncollected: 0 },
	transfers: { pulls: {}, writes: 0 },
	pins: { held: 0, pending: 0, releasing: 0 },
	advice: 0,
	hintsPending: 0,
};

/** True when a resident block has the bytes that belong to its key. */
export function hasRightBytes(entry: EntryResult | undefined): boolean {
	const pieces = entry?.pieces ?? [];
	return (
		pieces.length > 0 &&
		pieces.every(
			({ region, element }, piece) =>
				Buffer.compare(
					region.element(element),
					content(entry?.key ?? new Uint8Array(1), region.elementBytes, piece),
				) === 0,
		)
	);
}

function warningsTo(list: string[]): Logger {
	const note = (_fields: object, message?: string): void => {
		list.push(message ?? "");
	};
	return { debug() {}, info() {}, warn: note, error: note };
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
