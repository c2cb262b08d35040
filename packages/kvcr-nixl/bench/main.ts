/**
 * JavaScript to JavaScript over NIXL, beside two processes that drive the same C library and do nothing else, in one
 * run. Prints a table; `--json FILE` also writes it. `--quick` measures less.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import {
	type Figure,
	judge,
	printFigures,
	writeFigures,
} from "../../../tools/bench/lib/figures.js";
import { nativeProgram } from "../scripts/build-program.mjs";
import { libraryCandidates } from "../src/locate.js";
import { Bench } from "./ping.js";
import type { Figures } from "./shared.js";

const run = promisify(execFile);
const { values } = parseArgs({
	options: {
		quick: { type: "boolean", default: false },
		json: { type: "string" },
	},
});
const counts = values.quick
	? { backToBack: 2_000, paused: 200, bulk: 10, idleMs: 2_000 }
	: { backToBack: 10_000, paused: 1_000, bulk: 40, idleMs: 10_000 };

process.env.KVCR_NIXL_LIBRARY ??= join(
	import.meta.dirname,
	"../../../.cache/nixl/nixl-cu12-1.5.1/.nixl_cu12.mesonpy.libs/libnixl_capi.so",
);
const library = libraryCandidates("bench", undefined).paths.find(existsSync);
if (library === undefined) throw new Error("NIXL was not found");

const program = nativeProgram("floor/floor");

/** How often each section is measured. */
const TURNS = 5;

const bench = await Bench.start();
/** Floor and agent take turns, so that whatever else the machine does meanwhile meets both. */
const turns = {
	backToBack: { raw: [] as Figures[], mine: [] as Figures[] },
	paused: { raw: [] as Figures[], mine: [] as Figures[] },
	bulk: { raw: [] as Figures[], mine: [] as Figures[] },
};
const loopDelays: number[] = [];
for (let turn = 0; turn < TURNS; turn += 1) {
	for (const section of ["backToBack", "paused", "bulk"] as const) {
		const count = Math.ceil(counts[section] / TURNS);
		turns[section].raw.push(await floor(section, count));
		const mine = await bench[section](count);
		turns[section].mine.push(mine);
		if ("loopDelayP99Ms" in mine)
			loopDelays.push(mine.loopDelayP99Ms as number);
	}
}
const raw = middle("raw");
const mine = middle("mine");
const burner = spawn(process.execPath, ["-e", "for(;;);"], { stdio: "ignore" });
const busy = await bench.backToBack(counts.backToBack / 4);
burner.kill("SIGKILL");
const idle = await bench.idle(counts.idleMs);
await bench.stop();

const judged = [
	...roundTrip("back to back", raw.backToBack, mine.backToBack, "<= 2"),
	...roundTrip("2 ms pauses", raw.paused, mine.paused, "<= 1.5"),
	...roundTrip("third process busy", raw.backToBack, busy, "<= 5"),
	{
		name: "nixl: 64 x 1 MiB and a notification back",
		value: gibPerSecond(mine.bulk.p50),
		unit: "GiB/s",
		reference: { name: "raw", value: gibPerSecond(raw.bulk.p50) },
		target: ">= 0.95",
	} as const,
	{
		name: "nixl: event-loop delay during 64 x 1 MiB, p99",
		value: median(loopDelays),
		unit: "ms",
		target: "<= 5",
	} as const,
	{
		name: `nixl: idle agent over ${counts.idleMs / 1000} s`,
		value: idle * 100,
		unit: "% of a core",
		target: "<= 1",
	} as const,
].map(judge);
printFigures("One NIXL agent to another, two processes", judged);
if (values.json !== undefined) writeFigures(values.json, judged);

/** A 64 KiB write with a notification, answered by a notification. */
function roundTrip(
	how: string,
	base: Figures,
	agent: Figures,
	target: NonNullable<Figure["target"]>,
): Figure[] {
	const name = `nixl: 64 KiB round trip, ${how}`;
	return [
		{
			name: `${name}, p50`,
			value: agent.p50,
			unit: "us",
			reference: { name: "raw", value: base.p50 },
			target,
		},
		{ name: `${name}, p99`, value: agent.p99, unit: "us" },
	];
}

function gibPerSecond(micros: number): number {
	return 64 / 1024 / (micros / 1e6);
}

/** The turn in the middle, section by section. */
function middle(side: "raw" | "mine") {
	const of = (all: readonly Figures[]): Figures => ({
		p50: median(all.map(({ p50 }) => p50)),
		p99: median(all.map(({ p99 }) => p99)),
	});
	return {
		backToBack: of(turns.backToBack[side]),
		paused: of(turns.paused[side]),
		bulk: of(turns.bulk[side]),
	};
}

function median(values: readonly number[]): number {
	const sorted = [...values].sort((a, b) => a - b);
	return sorted[sorted.length >> 1] ?? Number.NaN;
}

async function floor(section: string, count: number): Promise<Figures> {
	const { stdout } = await run(program, [
		library as string,
		section,
		String(count),
	]);
	return JSON.parse(stdout) as Figures;
}
