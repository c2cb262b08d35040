/** `docs/benchmarks.md` and its chart, from one run. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { root } from "../../bootstrap/lib/paths.mjs";
import { type JudgedFigure, percentile } from "../lib/figures.js";
import { chart } from "./chart.js";
import { cellOf, medianOf, metadataRates, type Result } from "./results.js";
import { LOAD, METADATA, SHAPES } from "./shapes.js";

/** Where a run took place and with what. */
export interface Circumstances {
	readonly repetitions: number;
	readonly versions: Readonly<Record<string, string>>;
	/** Contenders that could not take part, and why. */
	readonly missing: Readonly<Record<string, string>>;
}

/** Writes page and chart. */
export function writeReport(
	results: readonly Result[],
	judged: readonly JudgedFigure[],
	circumstances: Circumstances,
): void {
	writeFileSync(join(root, "docs/benchmarks.svg"), chart(results));
	writeFileSync(
		join(root, "docs/benchmarks.md"),
		page(results, judged, circumstances),
	);
}

function page(
	results: readonly Result[],
	judged: readonly JudgedFigure[],
	{ repetitions, versions, missing }: Circumstances,
): string {
	const targets = judged.filter(({ target }) => target !== null);
	return `# Benchmarks

Written by \`npm run bench:peers -- --docs\`; edits are lost with the next run.

Every contender is two processes on one machine. They take turns, ${repetitions} each, and nobody runs beside another. A turn starts its
processes, warms up, moves every shape, and looks at what the processes use while nothing is asked of them. Blocks that a
target asks for are never there yet, and what arrives is checked.

![Medians by contender and shape](benchmarks.svg)

## Time and bandwidth

${table(
	[
		"contender",
		"shape",
		"p50",
		"p99",
		"bandwidth of the median",
		"CPU, both processes",
	],
	results.flatMap((result) =>
		SHAPES.map((shape) => {
			const cell = cellOf(result, shape);
			return [
				result.contender.title,
				shape.name,
				time(cell.p50Ms),
				time(cell.p99Ms),
				`${rounded(cell.gigabytesPerSecond)} GB/s`,
				cell.cpuSecondsPerGigabyte === undefined
					? ""
					: `${rounded(cell.cpuSecondsPerGigabyte)} s/GB`,
			];
		}),
	),
)}

What a time covers:

${results.map(({ contender }) => `- ${contender.title}: ${contender.covers}.`).join("\n")}

The highest of the few samples of the large shapes is what p99 means there.

## Around it

${table(
	[
		"contender",
		"idle",
		`query of ${METADATA.slots.toLocaleString("en")} keys`,
		`deposit and evict of ${METADATA.deposits.toLocaleString("en")} blocks`,
		"under load, p50",
		"under load, p99",
	],
	results
		.filter(({ turns }) => turns.some(({ idle }) => idle !== undefined))
		.map((result) => {
			const rates = metadataRates(result);
			const load = result.turns.flatMap((turn) => turn.load ?? []);
			return [
				result.contender.title,
				`${rounded((medianOf(result, (turn) => turn.idle) ?? 0) * 100)} % of a core`,
				rates === undefined ? "" : `${millions(rates.queries)} keys/s`,
				rates === undefined ? "" : `${millions(rates.deposits)} blocks/s`,
				load.length === 0 ? "" : time(percentile(load, 0.5)),
				load.length === 0 ? "" : time(percentile(load, 0.99)),
			];
		}),
)}

Idle is the busier of the two processes, connected and with nothing to do. Queries are of blocks that are all resident. Deposits come
from framework memory, ${METADATA.slotBytes} bytes each, into ${METADATA.slots.toLocaleString("en")} slots, ${METADATA.batch.toLocaleString("en")} at a time. Under load:
${LOAD.inFlight} requests of ${LOAD.blocks} × 64 KiB in flight while the target's owner computes for ${LOAD.busyMs} ms between any two looks.

## Against what was to be reached

${table(
	["figure", "value", "measured against", "ratio", "to reach", ""],
	targets.map((figure) => [
		figure.name,
		`${rounded(figure.value)} ${figure.unit}`,
		figure["reference name"] === null
			? ""
			: `${figure["reference name"]}: ${rounded(figure["reference value"] ?? 0)}`,
		figure.ratio === null ? "" : rounded(figure.ratio),
		figure.target ?? "",
		figure.holds ? "holds" : "**missed**",
	]),
)}

## Circumstances

- Machine: ${cpus().length} × ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release().replace(/-.*/, "")}; all processes on this machine, UCX over shared memory.
${[
	...Object.entries(versions).map(([name, version]) => `- ${name}: ${version}`),
	...Object.entries(missing).map(
		([name, reason]) => `- Not here: ${name} (${reason}).`,
	),
].join("\n")}

## Against what was to be reached

${table(
	["figure", "value", "measured against", "ratio", "to reach", ""],
	targets.map((figure) => [
		figure.name,
		`${rounded(figure.value)} ${figure.unit}`,
		figure["reference name"] === null
			? ""
			: `${figure["reference name"]}: ${rounded(figure["reference value"] ?? 0)}`,
		figure.ratio === null ? "" : rounded(figure.ratio),
		figure.target ?? "",
		figure.holds ? "holds" : "**missed**",
	]),
)}

## Circumstances

- Machine: ${cpus().length} × ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release().replace(/-.*/, "")}; all processes on this machine, UCX over shared memory.
${Object.entries(versions)
	.map(([name, version]) => `- ${name}: ${version}`)
	.join("\n")}
${Object.entries(missing)
	.map(([name, reason]) => `- Not here: ${name} (${reason}).`)
	.join("\n")}

## Again

\`\`\`sh
npm run bench:peers                      # about five minutes
npm run bench:peers -- --docs            # and write this page
npm run bench:peers -- --quick           # a look, one short turn each
npm run bench:peers -- --json FILE       # all figures for machines
\`\`\`

It takes Python 3 with pip, a C++ compiler for the floor, and nothing else running. The Python KVCR and Mooncake are installed
below \`.cache/\`, the latter only by this command.
`;
}

/** Versions of everything that takes part. */
export function versionsOf(
	python: string | undefined,
	mooncake: string | undefined,
): Record<string, string> {
	const own = JSON.parse(
		readFileSync(join(root, "packages/kvcr-core/package.json"), "utf8"),
	) as { version: string };
	const script =
		"import importlib.metadata as m, platform; print(', '.join([f'Python {platform.python_version()}'] + [f'{n} {m.version(n)}' for n in ('kvcr', 'nixl-cu12', 'pyzmq')]))";
	return {
		Ours: `${own.version}, Node.js ${process.versions.node}`,
		"NIXL under ours and the floor":
			/nixl-cu12-([\d.]+)/.exec(process.env.KVCR_NIXL_LIBRARY ?? "")?.[1] ??
			"of this machine",
		...(python !== undefined && {
			"Python KVCR": String(execFileSync(python, ["-c", script])).trim(),
		}),
		...(mooncake !== undefined && { Mooncake: mooncake }),
	};
}

function table(
	head: readonly string[],
	rows: readonly (readonly string[])[],
): string {
	const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
	return [line(head), line(head.map(() => "---")), ...rows.map(line)].join(
		"\n",
	);
}

function time(ms: number): string {
	return ms < 1 ? `${Math.round(ms * 1000)} µs` : `${rounded(ms)} ms`;
}

function rounded(value: number): string {
	return Math.abs(value) >= 100
		? String(Math.round(value))
		: String(Number(value.toPrecision(2)));
}

function millions(value: number): string {
	return value >= 1e6
		? `${rounded(value / 1e6)} M`
		: `${rounded(value / 1e3)} k`;
}
