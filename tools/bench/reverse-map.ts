/**
 * Benchmark of the reverse hash map against `Map<bigint, Set<string>>`.
 *
 *     node --conditions=kvcr-source --import tsx bench/reverse-map.ts [--keys 1000000,10000000] [--json FILE]
 *
 * Figures of both structures come from the same run, each measured in a process of its own. A size above 16,000,000 is
 * measured without the baseline, whose `Map` ends there.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Latency, MapFigures } from "./reverse-map-worker.js";

/** One line of the table and of the JSON file. */
interface Result {
	readonly name: string;
	readonly value: number;
	readonly unit: string;
	readonly referenceName: string | null;
	readonly referenceValue: number | null;
	/** How many times better than the reference. */
	readonly ratio: number | null;
	readonly target: string | null;
	readonly holds: boolean | null;
}

const BASELINE = "Map<bigint, Set<string>>";
const BASELINE_LIMIT = 16_000_000;

function worker<T>(subject: string, count: number): T {
	const script = fileURLToPath(
		new URL("reverse-map-worker.ts", import.meta.url),
	);
	const output = execFileSync(
		process.execPath,
		[
			...process.execArgv,
			"--expose-gc",
			"--max-old-space-size=12000",
			script,
			subject,
			String(count),
		],
		{ encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
	);
	return (JSON.parse(output) as { figures: T }).figures;
}

/** A figure that must be at least `factor` times better than the baseline's. */
function faster(
	name: string,
	value: number,
	reference: number | undefined,
	factor: number,
): Result {
	const ratio = reference === undefined ? null : reference / value;
	return {
		name,
		value,
		unit: "ns",
		referenceName: reference === undefined ? null : BASELINE,
		referenceValue: reference ?? null,
		ratio,
		target: reference === undefined ? null : `>= ${factor} x`,
		holds: ratio === null ? null : ratio >= factor,
	};
}

/** A figure with an absolute upper limit. */
function atMost(
	name: string,
	value: number,
	unit: string,
	limit: number,
	reference?: number,
): Result {
	return {
		name,
		value,
		unit,
		referenceName: reference === undefined ? null : BASELINE,
		referenceValue: reference ?? null,
		ratio: reference === undefined ? null : reference / value,
		target: `<= ${limit}`,
		holds: value <= limit,
	};
}

function latencyResults(
	label: string,
	found: Latency,
	count: number,
	base?: Latency,
): Result[] {
	return [
		atMost(`${label}: longest insert, own work`, found.longestOwnMs, "ms", 2),
		atMost(
			`${label}: longest insert`,
			found.longestMs,
			"ms",
			5,
			base?.longestMs,
		),
		atMost(
			`${label}: inserts over 1 ms`,
			found.over1ms,
			"calls",
			Math.floor(count / 100_000),
			base?.over1ms,
		),
		{
			...atMost(`${label}: longest collection`, found.gcLongestMs, "ms", 0),
			target: null,
			holds: null,
		},
	];
}

function compare(count: number): Result[] {
	const label = `${count / 1e6}M`;
	const map = worker<MapFigures>("map", count);
	const base =
		count <= BASELINE_LIMIT ? worker<MapFigures>("baseline", count) : undefined;
	return [
		faster(`${label}: insert`, map.insert, base?.insert, 5),
		faster(`${label}: remove`, map.remove, base?.remove, 3),
		faster(`${label}: hit, status`, map.statusHit, base?.statusHit, 6),
		faster(
			`${label}: hit, status, batch`,
			map.batchStatusHit as number,
			base?.statusHit,
			6,
		),
		faster(`${label}: hit, key bytes`, map.keyHit, base?.keyHit, 4),
		faster(
			`${label}: hit, key bytes, batch`,
			map.batchKeyHit as number,
			base?.keyHit,
			7,
		),
		faster(`${label}: miss`, map.miss, base?.miss, 1.5),
		faster(`${label}: miss, batch`, map.batchMiss as number, base?.miss, 3),
		atMost(`${label}: bytes per key`, map.bytes, "B", 64, base?.bytes),
		atMost(
			`${label}: bytes per key, worst while growing`,
			map.bytesWorst,
			"B",
			64,
			base?.bytesWorst,
		),
		atMost(
			`${label}: bytes per key, half removed`,
			map.bytesHalf,
			"B",
			64,
			base?.bytesHalf,
		),
		...latencyResults(label, map.latency, count, base?.latency),
	];
}

function adversarial(count: number): Result[] {
	const { first, last, remove } = worker<{
		first: number;
		last: number;
		remove: number;
	}>("adversarial", count);
	const label = `${count / 1e6}M keys under one hash`;
	return [
		{
			name: `${label}: insert, last tenth`,
			value: last,
			unit: "ns",
			referenceName: "second tenth",
			referenceValue: first,
			ratio: first / last,
			target: ">= 0.2 x",
			holds: last <= 5 * first,
		},
		{
			name: `${label}: remove`,
			value: remove,
			unit: "ns",
			referenceName: null,
			referenceValue: null,
			ratio: null,
			target: null,
			holds: null,
		},
	];
}

function show(result: Result): string {
	const digits = (n: number) =>
		n >= 100 ? n.toFixed(0) : n.toFixed(n >= 10 ? 1 : 2);
	return [
		result.name.padEnd(46),
		`${digits(result.value)} ${result.unit}`.padStart(12),
		(result.referenceValue === null
			? ""
			: digits(result.referenceValue)
		).padStart(9),
		(result.ratio === null ? "" : `${digits(result.ratio)} x`).padStart(9),
		(result.target ?? "").padStart(10),
		result.holds === null ? "" : result.holds ? "  holds" : "  MISSED",
	].join(" ");
}

const { values } = parseArgs({
	options: {
		keys: { type: "string", default: "1000000,10000000" },
		json: { type: "string" },
	},
});
const results: Result[] = [];
const report = (more: Result[]) => {
	for (const result of more) console.log(show(result));
	results.push(...more);
};
console.log(`reverse hash map against ${BASELINE}\n`);
console.log(
	[
		"figure".padEnd(46),
		"value".padStart(12),
		"baseline".padStart(9),
		"ratio".padStart(9),
		"target".padStart(10),
	].join(" "),
);
const sizes = values.keys.split(",").map(Number);
for (const size of sizes) {
	if (!Number.isInteger(size) || size < 10_000 || size > 100_000_000)
		throw new RangeError(
			`--keys: ${size} must be an integer of 10,000 to 100,000,000`,
		);
	report(compare(size));
}
report(adversarial(1_000_000));
const beside = Math.min(10_000_000, Math.max(...sizes));
report(
	latencyResults(
		`${beside / 1e6}M beside 500 MB`,
		worker<Latency>("beside", beside),
		beside,
	),
);
if (values.json !== undefined)
	writeFileSync(values.json, `${JSON.stringify(results, null, "\t")}\n`);
