/** Two instances in one process: one has a block, a hint tells the other to fetch it, and every byte is compared. */
import { deepStrictEqual, strictEqual } from "node:assert";
import {
	type BlockKey,
	blockKey,
	type ControlChannel,
	composeKvHint,
	HashNotFoundError,
	type KeyAdapter,
	Kvcr,
	KvcrDriver,
	keyText,
	type RouterHash,
	routerHash,
	stringifyKvHint,
	type TransferAgent,
} from "kvcr-core";

const SLOT_BYTES = 65_536;
const LIMIT_MS = 15_000;

/** The layers of one worker. */
export interface Layers {
	readonly agent: TransferAgent;
	readonly channel: ControlChannel;
}

/** Keys whose last 8 bytes are their hash, learned one by one. */
export class ExampleAdapter implements KeyAdapter<BlockKey> {
	readonly #keys = new Map<bigint, BlockKey>();

	learn(key: BlockKey): void {
		this.#keys.set(this.decode(key), key);
	}

	encode(frameworkKey: BlockKey): BlockKey {
		return frameworkKey;
	}

	decode(key: BlockKey): RouterHash {
		const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
		return routerHash(view.getBigUint64(key.byteLength - 8));
	}

	decodeFromRouter(hash: RouterHash): BlockKey {
		const key = this.#keys.get(hash);
		if (key === undefined) throw new HashNotFoundError(hash);
		return key;
	}
}

/** Moves a block from one new worker to another. `adapter` must know the key by its hash. */
export async function moveBlock<K>(
	layers: (name: string) => Promise<Layers>,
	adapter: KeyAdapter<K>,
	key: BlockKey,
): Promise<void> {
	const pools = [{ name: "kv", slotBytes: SLOT_BYTES, slotCount: 4 }];
	const source = await Kvcr.create({
		...(await layers("source")),
		adapter,
		pools,
	});
	const target = await Kvcr.create({
		...(await layers("target")),
		adapter,
		pools,
	});
	const drivers = [new KvcrDriver(source), new KvcrDriver(target)] as const;

	const bytes = new Uint8Array(SLOT_BYTES).map((_, at) => (at * 31 + 7) & 0xff);
	const deposited = await drivers[0].deposit([
		{ key, pieces: [{ label: "kv", bytes }] },
	]);
	strictEqual(deposited.entries[0]?.status, "SUCCESS");

	const hint = composeKvHint({
		source: source.endpoint ?? "",
		hashes: [adapter.decode(key)],
		scope: "independent",
	});
	target.submitHint(stringifyKvHint(hint));
	await until(() => target.query([key])[0]?.status === "HIT");

	const fetched = await drivers[1].fetch([key]);
	const [entry] = fetched.entries;
	strictEqual(entry?.status, "SUCCESS");
	const [piece] = entry.pieces ?? [];
	if (piece === undefined) throw new Error("the block came without bytes");
	deepStrictEqual(
		Buffer.from(piece.region.element(piece.element)),
		Buffer.from(bytes),
	);
	if (entry.releaseHandle !== undefined) target.release([entry.releaseHandle]);
	for (const driver of drivers) driver.stop();
	await Promise.all([source.close(), target.close()]);
}

/** A key of 36 bytes. */
export function exampleKey(): BlockKey {
	const key = blockKey(
		new Uint8Array(36).map((_, at) => 255 - at),
		"exampleKey",
		"key",
	);
	strictEqual(keyText(key), keyText(key.slice()));
	return key;
}

/** Runs a program and says how it went; a program that hangs fails. */
export function main(program: () => Promise<void>): void {
	const limit = setTimeout(() => {
		console.error(`not done after ${LIMIT_MS} ms`);
		process.exit(1);
	}, LIMIT_MS);
	program().then(
		() => {
			clearTimeout(limit);
			console.log("ok");
		},
		(error: unknown) => {
			console.error(error);
			process.exit(1);
		},
	);
}

/** Waits for a condition. The limit of {@link main} ends the wait. */
export async function until(condition: () => boolean): Promise<void> {
	while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
