/**
 * JavaScript to JavaScript over NIXL, beside two processes that drive the same C library and do nothing else, in one
 * run. Prints a table; `--json` prints the same as JSON. `--quick` measures less.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { nativeProgram } from "../scripts/build-program.mjs";
import { libraryCandidates } from "../src/locate.js";
import { Bench } from "./ping.js";
import type { Figures } from "./shared.js";

const run = promisify(execFile);
const quick = process.argv.includes("--quick");
const counts = quick
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

interface Row {
	readonly what: string;
	readonly raw: number;
	readonly agent: number;
	readonly target: string;
	readonly met: boolean;
	readonly detail: string;
}
const rows: Row[] = [];

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

ratio("64 KiB round trip, back to back", raw.backToBack, mine.backToBack, 2);
ratio("64 KiB round trip, 2 ms pauses", raw.paused, mine.paused, 1.5);
ratio("64 KiB round trip, third process busy", raw.backToBack, busy, 5);
const bandwidth = raw.bulk.p50 / mine.bulk.p50;
rows.push({
	what: "64 x 1 MiB round trip",
	raw: raw.bulk.p50,
	agent: mine.bulk.p50,
	target: ">= 95 % of raw bandwidth",
	met: bandwidth >= 0.95,
	detail: `${(bandwidth * 100).toFixed(0)} %, ${(64 / 1024 / (mine.bulk.p50 / 1e6)).toFixed(2)} GiB/s`,
});
const loopDelay = median(loopDelays);
rows.push({
	what: "event-loop delay p99 during 64 x 1 MiB",
	raw: Number.NaN,
	agent: loopDelay * 1000,
	target: "<= 5 ms",
	met: loopDelay <= 5,
	detail: `${loopDelay.toFixed(2)} ms`,
});
rows.push({
	what: `idle agent over ${counts.idleMs / 1000} s`,
	raw: Number.NaN,
	agent: Number.NaN,
	target: "<= 1 % of a core",
	met: idle <= 0.01,
	detail: `${(idle * 100).toFixed(2)} %`,
});

if (process.argv.includes("--json")) console.log(JSON.stringify({ rows }));
else {
	console.log("figure | raw p50 µs | agent p50 µs | target | result");
	for (const row of rows)
		console.log(
			[
				row.what,
				show(row.raw),
				show(row.agent),
				row.target,
				`${row.detail} ${row.met ? "met" : "MISSED"}`,
			].join(" | "),
		);
}

function ratio(what: string, base: Figures, agent: Figures, limit: number) {
	const factor = agent.p50 / base.p50;
	rows.push({
		what,
		raw: base.p50,
		agent: agent.p50,
		target: `<= ${limit} x raw`,
		met: factor <= limit,
		detail: `${factor.toFixed(2)} x, p99 ${show(agent.p99)} µs`,
	});
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

function show(micros: number): string {
	return Number.isNaN(micros) ? "-" : micros.toFixed(1);
}

async function floor(section: string, count: number): Promise<Figures> {
	const { stdout } = await run(program, [
		library as string,
		section,
		String(count),
	]);
	return JSON.parse(stdout) as Figures;
}
