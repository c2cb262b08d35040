/**
 * Managed G2 by itself: how many admissions a second when every one evicts, and how much heap a resident block takes.
 *
 * Run: `node --conditions=kvcr-source --import tsx tools/bench/cache.ts [--json FILE]`
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
	FifoPolicy,
	FrequencyPolicy,
	LruPolicy,
	ManagedCache,
} from "../../packages/kvcr-core/src/cache/index.js";
import {
	type KVCachePolicy,
	keyText,
	silentLogger,
	systemClock,
} from "../../packages/kvcr-core/src/ports/index.js";
import { type Figure, hollowRegion, report } from "./cache-figures.js";

const SLOTS = 100_000;
const ROUNDS = 4;
const BATCH = 16;
/** Bytes of a key, as vLLM's are: a hash of 32 bytes and a group. */
const KEY_BYTES = 36;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function cacheWith(policy: KVCachePolicy): ManagedCache {
	return new ManagedCache({
		pools: [{ name: "", region: hollowRegion(SLOTS) }],
		policy,
		clock: systemClock,
		logger: silentLogger,
	});
}

/** Keys made the way keys from the network are: text from bytes, one string each. */
function makeKeys(first: number, count: number): string[] {
	return Array.from({ length: count }, (_, i) => {
		const bytes = Buffer.alloc(KEY_BYTES, 0x5a);
		bytes.writeUInt32LE(first + i, 7);
		return keyText(bytes);
	});
}

/** Deposits every key, `BATCH` at a time: admit, complete, unclaim, settle. */
function deposit(cache: ManagedCache, keys: readonly string[]): void {
	for (let i = 0; i < keys.length; i += BATCH) {
		const batch = keys
			.slice(i, i + BATCH)
			.map((key) => ({ keyText: key, layout: [""] }));
		for (const outcome of cache.admit(batch, "deposit")) {
			if (outcome.kind !== "reserved")
				throw new Error(`not admitted: ${outcome.kind}`);
			cache.completeFill(outcome.residency);
			cache.unclaim(outcome.residency);
		}
		cache.settle();
	}
}

/** Admissions per second into a full cache: each one evicts. The best of some rounds, as others use the machine too. */
function admissionsPerSecond(policy: KVCachePolicy): number {
	const cache = cacheWith(policy);
	deposit(cache, makeKeys(0, SLOTS));
	let best = 0;
	for (let round = 1; round <= ROUNDS; round++) {
		const keys = makeKeys(round * SLOTS, SLOTS);
		const start = performance.now();
		deposit(cache, keys);
		best = Math.max(best, SLOTS / ((performance.now() - start) / 1000));
	}
	return best;
}

/** Bytes of heap per resident block: its record, its key and its entry in the map. */
function heapPerBlock(): number {
	const cache = cacheWith(new LruPolicy());
	collect();
	const before = process.memoryUsage().heapUsed;
	for (let i = 0; i < SLOTS; i += BATCH) deposit(cache, makeKeys(i, BATCH));
	collect();
	const after = process.memoryUsage().heapUsed;
	if (cache.stats().ready !== SLOTS)
		throw new Error("not all blocks are resident");
	return (after - before) / SLOTS;
}

const figures: Figure[] = [
	{
		name: `heap per resident block at ${SLOTS} blocks`,
		value: heapPerBlock(),
		unit: "bytes",
		referenceName: "budget",
		referenceValue: 400,
		target: "<= 1",
	},
];
for (const [name, policy] of [
	["lru", new LruPolicy()],
	["fifo", new FifoPolicy()],
	["frequency", new FrequencyPolicy({ expectedBlocks: SLOTS })],
] as const) {
	figures.push({
		name: `admissions with eviction, ${name}`,
		value: admissionsPerSecond(policy),
		unit: "blocks/s",
		referenceName: "budget",
		referenceValue: 500_000,
		target: name === "frequency" ? ">= 0.5" : ">= 1",
	});
}
report(
	`Managed G2, ${SLOTS} slots, one piece per block, ${KEY_BYTES}-byte keys`,
	figures,
);
