/**
 * Bench of the reverse hash map against `Map<bigint, Set<string>>`.
 *
 *     npm run bench -- reverse-map
 *     node --conditions=kvcr-source --import tsx tools/bench/reverse-map.ts [--keys 1000000,10000000] [--json FILE]
 *
 * Figures of both structures come from the same run, each measured in a process of its own. A size above 16,000,000 is
 * measured without the baseline, whose `Map` ends there.
 */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
	type Figure,
	type JudgedFigure,
	judge,
	printFigures,
	writeFigures,
} from "./lib/figures.js";
import type { Adversity, Latency, MapFigures } from "./reverse-map-worker.js";

const BASELINE = "Map<bigint, Set<string>>";
const BASELINE_LIMIT = 16_000_000;
const GOAL_SIZE = 10_000_000;

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

/** A rate from nanoseconds per call; `factor` is how many times the baseline's it has to be. */
function rate(
	name: string,
	ns: number,
	baselineNs: number | undefined,
	factor: number,
	count: number,
): Figure {
	const figure = { name, value: 1000 / ns, unit: "million/s" };
	return baselineNs === undefined
		? figure
		: {
				...figure,
				reference: { name: BASELINE, value: 1000 / baselineNs },
				// The goals are set for a size at which neither structure fits the caches.
				...(count < GOAL_SIZE ? {} : { target: `>= ${factor}` as const }),
			};
}

function bytes(name: string, value: number): Figure {
	return { name, value, unit: "B/key", target: "<= 64" };
}

function latency(label: string, found: Latency, count: number): Figure[] {
	return [
		{
			name: `${label}: longest insert, own work`,
			value: found.longestOwnMs,
			unit: "ms",
			target: "<= 2",
		},
		{
			name: `${label}: longest insert`,
			value: found.longestMs,
			unit: "ms",
			target: "<= 5",
		},
		{
			name: `${label}: inserts over 1 ms`,
			value: found.over1ms,
			unit: "calls",
			target: `<= ${Math.floor(count / 100_000)}`,
		},
		{
			name: `${label}: longest garbage collection`,
			value: found.gcLongestMs,
			unit: "ms",
		},
	];
}

function compare(count: number): Figure[] {
	const label = `${count / 1e6}M`;
	const map = worker<MapFigures>("map", count);
	const base =
		count <= BASELINE_LIMIT ? worker<MapFigures>("baseline", count) : undefined;
	const { batchStatusHit = NaN, batchKeyHit = NaN, batchMiss = NaN } = map;
	const { batchInsert = NaN } = map;
	return [
		rate(`${label}: insert`, map.insert, base?.insert, 5, count),
		rate(`${label}: insert, batch`, batchInsert, base?.insert, 5, count),
		rate(`${label}: remove`, map.remove, base?.remove, 3, count),
		rate(`${label}: hit, status`, map.statusHit, base?.statusHit, 6, count),
		rate(
			`${label}: hit, status, batch`,
			batchStatusHit,
			base?.statusHit,
			6,
			count,
		),
		rate(`${label}: hit, key bytes`, map.keyHit, base?.keyHit, 4, count),
		rate(
			`${label}: hit, key bytes, batch`,
			batchKeyHit,
			base?.keyHit,
			7,
			count,
		),
		rate(`${label}: miss`, map.miss, base?.miss, 1.5, count),
		rate(`${label}: miss, batch`, batchMiss, base?.miss, 3, count),
		bytes(`${label}: memory`, map.bytes),
		bytes(`${label}: memory, worst while growing`, map.bytesWorst),
		bytes(`${label}: memory, half removed`, map.bytesHalf),
		{
			name: `${label}: total memory`,
			value: (map.bytes * count) / 1e9,
			unit: "GB",
			...(base === undefined
				? {}
				: {
						reference: { name: BASELINE, value: (base.bytes * count) / 1e9 },
					}),
		},
		...latency(label, map.latency, count),
		...(base === undefined
			? []
			: [
					{
						name: `${label}: longest insert of ${BASELINE}`,
						value: base.latency.longestMs,
						unit: "ms",
					},
				]),
	];
}

function adversarial(count: number): Figure[] {
	const found = worker<Adversity>("adversarial", count);
	const label = `${count / 1e6}M under one hash`;
	return [
		{
			name: `${label}: insert, last tenth`,
			value: found.last,
			unit: "ns",
			reference: { name: "second tenth", value: found.first },
			target: "<= 5",
		},
		{ name: `${label}: remove`, value: found.remove, unit: "ns" },
	];
}

const { values } = parseArgs({
	options: {
		keys: { type: "string", default: "1000000,10000000" },
		json: { type: "string" },
	},
});
const all: JudgedFigure[] = [];
function report(title: string, figures: readonly Figure[]): void {
	const judged = figures.map(judge);
	printFigures(title, judged);
	all.push(...judged);
}
const sizes = values.keys.split(",").map(Number);
for (const size of sizes) {
	if (!Number.isInteger(size) || size < 10_000 || size > 100_000_000)
		throw new RangeError(
			`--keys: ${size} must be an integer of 10,000 to 100,000,000`,
		);
}
for (const size of sizes)
	report(`Reverse hash map, ${size} keys of 36 bytes`, compare(size));
report("All keys under one router hash", adversarial(1_000_000));
const beside = Math.min(10_000_000, Math.max(...sizes));
report(
	`Growing to ${beside} keys beside 500 MB of live objects`,
	latency("beside", worker<Latency>("beside", beside), beside),
);
if (values.json !== undefined) writeFigures(values.json, all);
