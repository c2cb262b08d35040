/**
 * One of our peers, as a process: `own.ts source|target|metadata AGENT`. Commands and answers are JSON lines, as for the
 * Python processes.
 */
import { subscribe } from "node:diagnostics_channel";
import { createInterface } from "node:readline";
import {
	type BlockKey,
	composeKvHint,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	type KeyAdapter,
	Kvcr,
	KvcrDriver,
	type MemoryRegion,
	routerHash,
	stringifyKvHint,
	type TransferAgent,
} from "kvcr-core";
import { PortableTransferAgent } from "kvcr-core/portable";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import {
	hashOf,
	keyOf,
	LOAD,
	METADATA,
	POOLS,
	type PoolName,
	poolOf,
	type Shape,
} from "./shapes.js";

const [, , role, kind] = process.argv;
/** Nothing here is late: what waits for this is broken. */
const PATIENCE = { operationTimeoutMs: 20_000, abandonTimeoutMs: 60_000 };
const NAMES = Object.keys(POOLS) as PoolName[];

const adapter: KeyAdapter<BlockKey> = {
	encode: (key) => key,
	decode: (key) =>
		routerHash(new DataView(key.buffer, key.byteOffset).getBigUint64(28)),
	decodeFromRouter: keyOf,
};

async function createAgent(): Promise<TransferAgent> {
	if (kind === "portable") return PortableTransferAgent.create();
	const { NixlTransferAgent } = await import("kvcr-nixl");
	return NixlTransferAgent.create();
}

const reply = (value: unknown): void => {
	process.stdout.write(`${JSON.stringify(value)}\n`);
};

if (role === "metadata") {
	reply(await metadata());
	process.exit();
}

const kvcr = await Kvcr.create({
	agent: await createAgent(),
	channel: new ZmqControlChannel({ port: 0 }),
	adapter,
	pools: NAMES.map((name) => ({
		name,
		slotBytes: POOLS[name].slotBytes,
		slotCount:
			role === "source" ? POOLS[name].sourceBlocks : POOLS[name].targetSlots,
	})),
	...PATIENCE,
});
const driver = new KvcrDriver(kvcr);
let onOutcome: (report: HintOutcomeReport) => void = () => {};
subscribe(HINT_OUTCOME_CHANNEL, (report) =>
	onOutcome(report as HintOutcomeReport),
);
const next: Record<PoolName, number> = { small: 0, large: 0 };

if (role === "source") {
	for (const name of NAMES) {
		const { slotBytes, sourceBlocks } = POOLS[name];
		for (let index = 0; index < sourceBlocks; index += 1) {
			const bytes = new Uint8Array(slotBytes).fill(index);
			new DataView(bytes.buffer).setBigUint64(0, hashOf(name, index));
			await driver.deposit([
				{ key: keyOf(hashOf(name, index)), pieces: [{ label: name, bytes }] },
			]);
		}
	}
}
reply({ endpoint: kvcr.endpoint });

interface Command {
	readonly cmd: "fetch" | "hints" | "load" | "close";
	readonly source: string;
	readonly shape: Shape;
	readonly rounds: number;
}

for await (const line of createInterface({ input: process.stdin })) {
	const { cmd, source, shape, rounds } = JSON.parse(line) as Command;
	if (cmd === "close") break;
	if (cmd === "fetch") reply(await fetches(source, shape, rounds));
	if (cmd === "hints") reply(await placements(source, shape, rounds));
	if (cmd === "load") reply(await load(source));
}
driver.stop();
await kvcr.close();
process.stdin.destroy();

/** Fetches in request scope, one after the other. Milliseconds from the call to the blocks in hand. */
async function fetches(
	source: string,
	shape: Shape,
	rounds: number,
): Promise<number[]> {
	const pool = poolOf(shape);
	const all = Array.from({ length: POOLS[pool].sourceBlocks }, (_, index) =>
		hashOf(pool, index),
	);
	kvcr.submitHint(hint(source, all, "request"), "bench");
	const samples: number[] = [];
	for (let round = 0; round < rounds; round += 1) {
		const keys = following(pool, shape.blocks).map(keyOf);
		const startedAt = performance.now();
		const { entries } = await driver.fetch(keys, {
			requestId: "bench",
			expectedLayout: [pool],
		});
		samples.push(performance.now() - startedAt);
		for (const { key, status, pieces } of entries) {
			const [piece] = pieces ?? [];
			if (status !== "SUCCESS" || piece === undefined)
				throw new Error(`a fetch ended as ${status}`);
			const bytes = piece.region.element(piece.element);
			check(bytes, adapter.decode(key as BlockKey));
		}
		kvcr.release(entries.flatMap(({ releaseHandle }) => releaseHandle ?? []));
	}
	kvcr.discardHint("bench");
	return samples;
}

/** Independent hints, one after the other. Milliseconds from the hint to the last block placed, resolution included. */
async function placements(
	source: string,
	shape: Shape,
	rounds: number,
): Promise<number[]> {
	const samples: number[] = [];
	for (let round = 0; round < rounds; round += 1) {
		const hashes = following(poolOf(shape), shape.blocks);
		const text = hint(source, hashes, "independent");
		samples.push(
			await new Promise<number>((resolve, reject) => {
				let open = hashes.length;
				onOutcome = ({ outcome }) => {
					if (outcome !== "placed") reject(new Error(`a block: ${outcome}`));
					open -= 1;
					if (open === 0) resolve(performance.now() - startedAt);
				};
				const startedAt = performance.now();
				kvcr.submitHint(text);
			}),
		);
	}
	return samples;
}

/** Independent hints, several in flight, while the owner of the thread is busy most of the time. */
async function load(source: string): Promise<number[]> {
	const samples: number[] = [];
	const open = new Map<bigint, { left: number; startedAt: number }>();
	let submitted = 0;
	let busy = true;
	const submit = (): void => {
		if (submitted >= LOAD.rounds) return;
		submitted += 1;
		const hashes = following("small", LOAD.blocks);
		const text = hint(source, hashes, "independent");
		const state = { left: hashes.length, startedAt: performance.now() };
		for (const hash of hashes) open.set(hash, state);
		kvcr.submitHint(text);
	};
	await new Promise<void>((resolve, reject) => {
		onOutcome = ({ hash, outcome }) => {
			const state = open.get(hash);
			if (outcome !== "placed") reject(new Error(`a block: ${outcome}`));
			if (state === undefined) return;
			open.delete(hash);
			state.left -= 1;
			if (state.left > 0) return;
			samples.push(performance.now() - state.startedAt);
			if (samples.length === LOAD.rounds) resolve();
			else submit();
		};
		const work = (): void => {
			const until = performance.now() + LOAD.busyMs;
			while (performance.now() < until);
			if (busy) setImmediate(work);
		};
		for (let i = 0; i < LOAD.inFlight; i += 1) submit();
		work();
	});
	busy = false;
	return samples;
}

/** Queries and deposits of one instance, without a peer: milliseconds per query, and for all deposits. */
async function metadata(): Promise<{
	queryMs: number[];
	depositMs: number;
}> {
	const { slotBytes, slots, queries, deposits, batch } = METADATA;
	const agent = await createAgent();
	const region: MemoryRegion = await agent.createRegion({
		label: "kv",
		elementBytes: slotBytes,
		elementCount: batch,
	});
	const instance = await Kvcr.create({
		agent,
		adapter,
		pools: [{ name: "kv", slotBytes, slotCount: slots }],
		frameworkRegions: [region],
		...PATIENCE,
	});
	const owner = new KvcrDriver(instance);
	const keys = Array.from({ length: deposits }, (_, i) => keyOf(BigInt(i)));
	const startedAt = performance.now();
	for (let at = 0; at < deposits; at += batch) {
		const { entries } = await owner.deposit(
			keys.slice(at, at + batch).map((key, element) => ({
				key,
				pieces: [{ label: "kv", region, element }],
			})),
		);
		if (entries.some(({ status }) => status !== "SUCCESS"))
			throw new Error("a deposit failed");
	}
	const depositMs = performance.now() - startedAt;
	const present = keys.slice(deposits - slots);
	const queryMs: number[] = [];
	for (let i = 0; i < queries; i += 1) {
		const begun = performance.now();
		const results = instance.query(present);
		queryMs.push(performance.now() - begun);
		if (results.some(({ status }) => status !== "HIT"))
			throw new Error("a block is gone");
	}
	owner.stop();
	await instance.close();
	return { queryMs, depositMs };
}

function following(pool: PoolName, count: number): bigint[] {
	return Array.from({ length: count }, () => {
		const index = next[pool];
		next[pool] = (index + 1) % POOLS[pool].sourceBlocks;
		return hashOf(pool, index);
	});
}

function hint(
	source: string,
	hashes: readonly bigint[],
	scope: "request" | "independent",
): string {
	return stringifyKvHint(composeKvHint({ source, hashes, scope }));
}

function check(bytes: Uint8Array, hash: bigint): void {
	const last = bytes[bytes.byteLength - 1];
	const view = new DataView(bytes.buffer, bytes.byteOffset);
	if (view.getBigUint64(0) !== hash || last !== Number(hash & 0xffn))
		throw new Error(`wrong bytes for ${hash}`);
}
