/**
 * Measures one structure at one size and prints the figures as one JSON line. A process of its own per measurement, so
 * that no heap disturbs another one's figures. Run by reverse-map.ts; needs --expose-gc.
 */
import { PerformanceObserver, performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { keyFromText, keyText, type RouterHash } from "kvcr-core";
import { ReverseHashMap } from "kvcr-vllm-adapter";
import {
	KEY_BYTES,
	keyAt,
	lastHash,
	missingHash,
	scattered,
} from "./reverse-map-keys.js";
import { best, nsPer } from "./reverse-map-timing.js";

/** Figures of one measurement; nanoseconds per call unless the name says otherwise. */
export interface MapFigures {
	insert: number;
	remove: number;
	statusHit: number;
	keyHit: number;
	miss: number;
	/** Absent for a structure without batch calls. */
	batchInsert?: number;
	batchStatusHit?: number;
	batchKeyHit?: number;
	batchMiss?: number;
	/** Heap and buffers per key: at the end of growth, at the worst point of it, and after half was removed. */
	bytes: number;
	bytesWorst: number;
	bytesHalf: number;
	latency: Latency;
}

/** How long single inserts took. */
export interface Latency {
	longestMs: number;
	/** The longest one without the part spent in garbage collection or off the processor. */
	longestOwnMs: number;
	gcLongestMs: number;
	over1ms: number;
	over5ms: number;
	/** Those over 1 ms of the map's own. */
	ownOver1ms: number;
}

/** Nanoseconds per call with all keys under one hash. */
export interface Adversity {
	/** Inserts of the second and of the last tenth. */
	first: number;
	last: number;
	remove: number;
}

interface Subject {
	insert(key: Uint8Array): void;
	insertMany?(keys: readonly Uint8Array[]): void;
	remove(key: Uint8Array): void;
	status(hash: bigint): boolean;
	key(hash: bigint): number;
	statusMany?(hashes: readonly bigint[]): number;
	keyMany?(hashes: readonly bigint[]): number;
	/** Bytes that Node does not count: shared buffers. */
	uncounted(): number;
}

const TIER = 4;
const BATCH = 512;

function reverseHashMap(): Subject {
	const map = new ReverseHashMap();
	return {
		insert: (key) => map.add(key, TIER),
		insertMany: (keys) => map.addMany(keys, TIER),
		remove: (key) => map.remove(key, TIER),
		status: (hash) => map.status(hash as RouterHash) === "unique",
		key: (hash) => map.lookup(hash as RouterHash).length,
		statusMany: (hashes) =>
			map.statusMany(hashes as readonly RouterHash[]).length,
		uncounted: () => map.stats().bytes,
		keyMany: (hashes) => map.lookupMany(hashes as readonly RouterHash[]).length,
	};
}

function mapOfSets(): Subject {
	const map = new Map<bigint, Set<string>>();
	const hashOf = (key: Uint8Array) =>
		new DataView(key.buffer, key.byteOffset, key.length).getBigUint64(
			key.length - 12,
		);
	return {
		insert(key) {
			const hash = hashOf(key);
			const set = map.get(hash);
			if (set === undefined) map.set(hash, new Set([keyText(key)]));
			else set.add(keyText(key));
		},
		remove(key) {
			const hash = hashOf(key);
			const set = map.get(hash);
			if (set?.delete(keyText(key)) && set.size === 0) map.delete(hash);
		},
		uncounted: () => 0,
		status: (hash) => map.get(hash)?.size === 1,
		key(hash) {
			const set = map.get(hash);
			if (set?.size !== 1) return 0;
			for (const text of set) return keyFromText(text).length;
			return 0;
		},
	};
}

/** Heap and buffers in use after a full collection. `external` contains ordinary buffers. */
function memory(subject?: Subject): number {
	globalThis.gc?.();
	globalThis.gc?.();
	const { heapUsed, external } = process.memoryUsage();
	return heapUsed + external + (subject?.uncounted() ?? 0);
}

let sink = 0;

function lookups(subject: Subject, count: number): Partial<MapFigures> {
	const probes = Math.min(count, 1_000_000);
	const hits: bigint[] = [];
	const misses: bigint[] = [];
	const pick = scattered(count);
	for (let i = 0; i < probes; i++) {
		keyAt(pick(i * 7));
		hits.push(lastHash());
		misses.push(missingHash());
	}
	const hitBatches: bigint[][] = [];
	const missBatches: bigint[][] = [];
	for (let i = 0; i < probes; i += BATCH) {
		hitBatches.push(hits.slice(i, i + BATCH));
		missBatches.push(misses.slice(i, i + BATCH));
	}
	const figures: Partial<MapFigures> = {
		statusHit: best(probes, () => {
			for (const hash of hits)
				if (!subject.status(hash)) throw new Error("lost");
		}),
		keyHit: best(probes, () => {
			for (const hash of hits) sink += subject.key(hash);
		}),
		miss: best(probes, () => {
			for (const hash of misses) if (subject.status(hash)) sink++;
		}),
	};
	const { statusMany, keyMany } = subject;
	if (statusMany && keyMany) {
		figures.batchStatusHit = best(probes, () => {
			for (const batch of hitBatches) sink += statusMany(batch);
		});
		figures.batchKeyHit = best(probes, () => {
			for (const batch of hitBatches) sink += keyMany(batch);
		});
		figures.batchMiss = best(probes, () => {
			for (const batch of missBatches) sink += statusMany(batch);
		});
	}
	return figures;
}

/** Inserts in batches, as events and inventory do. */
function batchInsert(
	insertMany: (keys: readonly Uint8Array[]) => void,
	count: number,
): number {
	const keys = Array.from({ length: BATCH }, () => new Uint8Array(KEY_BYTES));
	const generate = (from: number) => {
		for (const [i, key] of keys.entries()) key.set(keyAt(from + i));
	};
	const generating = best(count, () => {
		for (let from = 0; from < count; from += BATCH) generate(from);
	});
	const inserting = nsPer(count, () => {
		for (let from = 0; from < count; from += BATCH) {
			generate(from);
			insertMany(keys);
		}
	});
	return inserting - generating;
}

/** Inserts one by one, each timed. Collections and losses of the processor are told apart from the map's own work. */
async function latencies(subject: Subject, count: number): Promise<Latency> {
	const collections: { start: number; end: number }[] = [];
	const observer = new PerformanceObserver((list) => {
		for (const entry of list.getEntries())
			collections.push({
				start: entry.startTime,
				end: entry.startTime + entry.duration,
			});
	});
	observer.observe({ entryTypes: ["gc"] });
	const slow: { start: number; end: number; busyMs: number }[] = [];
	let cpu = process.cpuUsage();
	for (let i = 0; i < count; i++) {
		const key = keyAt(i);
		if ((i & 63) === 0) cpu = process.cpuUsage();
		const start = performance.now();
		subject.insert(key);
		const end = performance.now();
		if (end - start < 0.5) continue;
		const { user, system } = process.cpuUsage(cpu);
		slow.push({ start, end, busyMs: (user + system) / 1000 });
	}
	// Entries are delivered between other work, a batch at a time.
	await sleep(200);
	observer.disconnect();
	const latency: Latency = {
		longestMs: 0,
		longestOwnMs: 0,
		gcLongestMs: 0,
		over1ms: 0,
		over5ms: 0,
		ownOver1ms: 0,
	};
	for (const { start, end } of collections)
		latency.gcLongestMs = Math.max(latency.gcLongestMs, end - start);
	for (const { start, end, busyMs } of slow) {
		const took = end - start;
		let own = took;
		for (const gc of collections)
			own -= Math.max(0, Math.min(end, gc.end) - Math.max(start, gc.start));
		own = Math.min(own, busyMs);
		latency.longestMs = Math.max(latency.longestMs, took);
		latency.longestOwnMs = Math.max(latency.longestOwnMs, own);
		if (took > 1) latency.over1ms++;
		if (took > 5) latency.over5ms++;
		if (own > 1) latency.ownOver1ms++;
	}
	return latency;
}

async function measure(
	make: () => Subject,
	count: number,
): Promise<MapFigures> {
	const generating = best(count, () => {
		for (let i = 0; i < count; i++) sink += keyAt(i)[3] as number;
	});
	const before = memory();
	let subject = make();
	let bytesWorst = 0;
	let insertNs = 0;
	let from = 0;
	// Growth in steps of a twelfth of a doubling shows the fullest and the emptiest moment of it. A collection between two
	// steps takes the baseline seconds, and its memory is not in question.
	const steps = make === mapOfSets ? 1 : 12;
	for (let next = count / 2; from < count; next *= 2 ** (1 / steps)) {
		const to = Math.min(count, Math.ceil(next));
		insertNs += nsPer(1, () => {
			for (let i = from; i < to; i++) subject.insert(keyAt(i));
		});
		from = to;
		bytesWorst = Math.max(bytesWorst, (memory(subject) - before) / to);
	}
	const insert = insertNs / count - generating;
	const bytes = (memory(subject) - before) / count;
	const found = lookups(subject, count);
	const pick = scattered(count);
	const half = Math.floor(count / 2);
	const remove =
		nsPer(half, () => {
			for (let i = 0; i < half; i++) subject.remove(keyAt(pick(i)));
		}) - generating;
	const bytesHalf = (memory(subject) - before) / (count - half);
	subject = make();
	memory();
	const { insertMany } = subject;
	const batched = insertMany && {
		batchInsert: batchInsert(insertMany, count),
	};
	subject = make();
	memory();
	const latency = await latencies(subject, count);
	return {
		...(found as MapFigures),
		...batched,
		insert,
		remove,
		bytes,
		bytesWorst,
		bytesHalf,
		latency,
	};
}

/** Inserts beside many live objects: what a collection costs then, and that the map does not provoke it. */
async function besideObjects(
	megabytes: number,
	count: number,
): Promise<Latency> {
	const objects: object[] = [];
	const start = process.memoryUsage().heapUsed;
	while (process.memoryUsage().heapUsed - start < megabytes * 1e6)
		for (let i = 0; i < 10_000; i++)
			objects.push({ id: i, name: `object ${i}`, next: objects[i] });
	memory();
	const latency = await latencies(reverseHashMap(), count);
	if (objects.length === 0) throw new Error("the objects were collected");
	return latency;
}

/** All keys under one router hash: the time of the last tenth against that of the first, in nanoseconds per insert. */
function adversarial(count: number): Adversity {
	const map = new ReverseHashMap();
	const key = new Uint8Array(36);
	const view = new DataView(key.buffer);
	const insert = (from: number, to: number) => {
		for (let i = from; i < to; i++) {
			view.setUint32(0, i);
			map.add(key, TIER);
		}
	};
	insert(0, count / 10);
	const first = nsPer(count / 10, () => insert(count / 10, count / 5));
	insert(count / 5, count * 0.9);
	const last = nsPer(count / 10, () => insert(count * 0.9, count));
	const remove = nsPer(count, () => {
		for (let i = 0; i < count; i++) {
			view.setUint32(0, i);
			map.remove(key, TIER);
		}
	});
	if (map.size !== 0) throw new Error("keys left over");
	return { first, last, remove };
}

const [subject, size] = process.argv.slice(2);
const count = Number(size);
let figures: unknown;
if (subject === "baseline") figures = await measure(mapOfSets, count);
else if (subject === "map") figures = await measure(reverseHashMap, count);
else if (subject === "beside") figures = await besideObjects(500, count);
else if (subject === "adversarial") figures = adversarial(count);
else throw new Error(`unknown subject ${subject}`);
console.log(
	JSON.stringify({ figures, rssMb: process.memoryUsage().rss / 1e6, sink }),
);
