/** All turns of all contenders together, and the figures that come of them. */
import { type Figure, percentile } from "../lib/figures.js";
import type { Contender, Turn } from "./contenders.js";
import { METADATA, SHAPES, type Shape } from "./shapes.js";

/** What is known of one contender. */
export interface Result {
	readonly contender: Contender;
	readonly turns: readonly Turn[];
}

/** One cell of the table; undefined where a contender has no such figure. */
export interface Cell {
	readonly p50Ms: number;
	readonly p99Ms: number;
	readonly gigabytesPerSecond: number;
	readonly cpuSecondsPerGigabyte: number | undefined;
}

export function bytesOf({ blocks, blockBytes }: Shape): number {
	return blocks * blockBytes;
}

/** The cell of a contender and a shape. Bandwidth is that of the median. */
export function cellOf({ turns }: Result, shape: Shape): Cell {
	const found = turns.flatMap(({ shapes }) => shapes[shape.name] ?? []);
	const samples = found.flatMap((one) => one.samples);
	const p50Ms = percentile(samples, 0.5);
	const gigabytes = (samples.length * bytesOf(shape)) / 1e9;
	const cpu = found.map(({ cpuSeconds }) => cpuSeconds);
	return {
		p50Ms,
		p99Ms: percentile(samples, 0.99),
		gigabytesPerSecond: bytesOf(shape) / p50Ms / 1e6,
		cpuSecondsPerGigabyte: cpu.includes(undefined)
			? undefined
			: cpu.reduce<number>((sum, one) => sum + (one ?? 0), 0) / gigabytes,
	};
}

/** Median over the turns of one number per turn; undefined when no turn has it. */
export function medianOf(
	{ turns }: Result,
	pick: (turn: Turn) => number | undefined,
): number | undefined {
	const found = turns.flatMap((turn) => pick(turn) ?? []);
	return found.length === 0 ? undefined : percentile(found, 0.5);
}

/** Keys per second of a query, and blocks per second deposited while others are evicted. */
export function metadataRates(
	result: Result,
): { queries: number; deposits: number } | undefined {
	const queryMs = medianOf(
		result,
		({ metadata }) =>
			metadata && percentile(metadata.queryMs.slice(METADATA.warmQueries), 0.5),
	);
	const depositMs = medianOf(result, ({ metadata }) => metadata?.depositMs);
	if (queryMs === undefined || depositMs === undefined) return undefined;
	return {
		queries: (METADATA.slots / queryMs) * 1000,
		deposits: (METADATA.deposits / depositMs) * 1000,
	};
}

/** Every figure, those with a target beside what they are measured against. */
export function figuresOf(results: readonly Result[]): Figure[] {
	const byId = new Map(results.map((one) => [one.contender.id, one]));
	const [single, , bulk] = SHAPES as readonly [Shape, Shape, Shape, Shape];
	const figures: Figure[] = [];
	for (const result of results) {
		for (const shape of SHAPES) {
			const cell = cellOf(result, shape);
			const name = `${result.contender.title}: ${shape.name}`;
			figures.push(
				{ name: `${name}, p50`, value: cell.p50Ms * 1000, unit: "us" },
				{ name: `${name}, p99`, value: cell.p99Ms * 1000, unit: "us" },
				{ name, value: cell.gigabytesPerSecond, unit: "GB/s" },
			);
			if (cell.cpuSecondsPerGigabyte !== undefined)
				figures.push({
					name,
					value: cell.cpuSecondsPerGigabyte,
					unit: "CPU s/GB",
				});
		}
		const load = result.turns.flatMap((turn) => turn.load ?? []);
		if (load.length > 0)
			figures.push(
				{
					name: `${result.contender.title}: under load, p50`,
					value: percentile(load, 0.5) * 1000,
					unit: "us",
				},
				{
					name: `${result.contender.title}: under load, p99`,
					value: percentile(load, 0.99) * 1000,
					unit: "us",
				},
			);
	}
	const compared = (
		what: string,
		unit: string,
		target: Figure["target"],
		[mine, value]: readonly [string, (result: Result) => number | undefined],
		[theirs, reference]: readonly [
			string,
			(result: Result) => number | undefined,
		],
	): void => {
		const left = byId.get(mine);
		const right = byId.get(theirs);
		const leftValue = left && value(left);
		const rightValue = right && reference(right);
		if (leftValue === undefined || rightValue === undefined || !right) return;
		figures.push({
			name: what,
			value: leftValue,
			unit,
			reference: { name: right.contender.title, value: rightValue },
			...(target !== undefined && { target }),
		});
	};
	const p50 = (result: Result) => cellOf(result, single).p50Ms * 1000;
	const bandwidth = (result: Result) => cellOf(result, bulk).gigabytesPerSecond;
	compared(
		`hint to placed, ${single.name}, p50`,
		"us",
		"<= 0.2",
		["nixl-hints", p50],
		["python", p50],
	);
	for (const [theirs, target] of [
		["raw", ">= 0.95"],
		["mooncake", ">= 4"],
		["python", undefined],
	] as const)
		compared(
			`fetch, ${bulk.name}`,
			"GB/s",
			target,
			["nixl-fetch", bandwidth],
			[theirs, bandwidth],
		);
	compared(
		`query of ${METADATA.slots} keys`,
		"keys/s",
		">= 3",
		["nixl-fetch", (one) => metadataRates(one)?.queries],
		["python", (one) => metadataRates(one)?.queries],
	);
	compared(
		`deposit and evict of ${METADATA.deposits} blocks`,
		"blocks/s",
		">= 3",
		["nixl-fetch", (one) => metadataRates(one)?.deposits],
		["python", (one) => metadataRates(one)?.deposits],
	);
	for (const result of results) {
		const idle = medianOf(result, (turn) => turn.idle);
		if (idle === undefined) continue;
		const ours = result.contender.id.includes("-");
		figures.push({
			name: `${result.contender.title}: idle`,
			value: idle,
			unit: "cores",
			...(ours && { target: "<= 0.01" as const }),
		});
	}
	return figures;
}
