/**
 * `npm run bench:peers [-- --repetitions N] [--quick] [--only ID,ID] [--json FILE] [--docs]`: our peers beside the Python KVCR,
 * Mooncake's transfer engine and the bare library, all in one run. Fails when a target is missed.
 */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { userPath } from "../../lib/user-path.js";
import { judge, printFigures, writeFigures } from "../lib/figures.js";
import {
	type Contender,
	mooncakeTcp,
	own,
	pythonKvcr,
	rawNixl,
	type Turn,
} from "./contenders.js";
import { mooncake } from "./mooncake.js";
import { versionsOf, writeReport } from "./report.js";
import { figuresOf } from "./results.js";

const { values } = parseArgs({
	options: {
		repetitions: { type: "string", default: "3" },
		quick: { type: "boolean", default: false },
		only: { type: "string" },
		json: { type: "string" },
		docs: { type: "boolean", default: false },
	},
});
const repetitions = values.quick ? 1 : Number(values.repetitions);
const scale = values.quick ? 0.2 : 1;
const only = values.only?.split(",");

const missing: Record<string, string> = {};
const contenders: Contender[] = [];
const python = process.env.KVCR_PYTHON_PEER;
const hasNixl = existsSync(process.env.KVCR_NIXL_LIBRARY ?? "");
if (hasNixl) {
	try {
		contenders.push(rawNixl());
	} catch (error) {
		missing["raw NIXL"] = `its program does not build: ${error}`;
	}
	contenders.push(own("nixl", "fetch", { metadata: true }));
	contenders.push(own("nixl", "hints"));
} else missing.NIXL = "its library is not here, the bootstrap says why";
const mooncakeFound =
	python === undefined ? { missing: "no Python" } : await mooncake(python);
if (python === undefined)
	missing["the Python KVCR"] = "not here, the bootstrap says why";
else contenders.push(pythonKvcr(python));
if ("missing" in mooncakeFound) missing.Mooncake = mooncakeFound.missing;
else contenders.push(mooncakeTcp(mooncakeFound));
contenders.push(own("portable", "fetch"), own("portable", "hints"));

const results = contenders
	.filter(({ id }) => only?.includes(id) ?? true)
	.map((contender) => ({ contender, turns: [] as Turn[] }));
for (let repetition = 1; repetition <= repetitions; repetition += 1) {
	// Each repetition begins with another contender, so that none is always the first or the last.
	for (let i = 0; i < results.length; i += 1) {
		const result = results[(i + repetition - 1) % results.length];
		if (result === undefined) continue;
		console.error(`${repetition}/${repetitions} ${result.contender.title}`);
		result.turns.push(await result.contender.turn(scale));
	}
}

const judged = figuresOf(results).map(judge);
printFigures(
	`Peers side by side, two processes each, ${repetitions} turns`,
	judged,
);
for (const [name, reason] of Object.entries(missing))
	console.log(`without ${name}: ${reason}`);
if (values.json !== undefined) writeFigures(userPath(values.json), judged);
if (values.docs)
	writeReport(results, judged, {
		repetitions,
		missing,
		versions: versionsOf(
			python,
			"missing" in mooncakeFound ? undefined : mooncakeFound.version,
		),
	});
if (judged.some(({ holds }) => holds === false)) process.exitCode = 1;
