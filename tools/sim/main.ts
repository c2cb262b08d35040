/**
 * The simulator from the command line.
 *
 * `npm run sim -- [--seed S] [--minutes M] [--peers N] [--steps K] [--json FILE]`: runs scenarios one after the other.
 * `npm run sim -- --replay SEED [--peers N] [--steps K] [--steps-kept RANGES] [--without FAULTS]`: runs one again.
 *
 * The exit code is 1 when a rule was broken; what is printed then holds the command that repeats it.
 */
import { writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import {
	campaign,
	explain,
	FAULT_KINDS,
	type FaultKind,
	faultsOf,
	makeScenario,
	newTally,
	operationsOf,
	type RunResult,
	readRanges,
	reduce,
	type ScenarioOptions,
	shrink,
	simulate,
	type Tally,
} from "kvcr-core/testing";
import { userPath } from "../lib/user-path.js";

/** Between two lines about how it goes, in milliseconds. */
const REPORT_MS = 60_000;

const { values } = parseArgs({
	options: {
		seed: { type: "string" },
		minutes: { type: "string", default: "1" },
		peers: { type: "string" },
		steps: { type: "string" },
		json: { type: "string" },
		replay: { type: "string" },
		"steps-kept": { type: "string" },
		without: { type: "string" },
	},
});

const options: ScenarioOptions = {
	peers: count("peers", values.peers),
	steps: count("steps", values.steps),
};
const extra = (["peers", "steps"] as const).flatMap((name) =>
	values[name] === undefined ? [] : [`--${name}`, values[name]],
);

process.exitCode =
	values.replay === undefined ? await runMany() : await runAgain(values.replay);

async function runMany(): Promise<number> {
	const seed = values.seed ?? `${Date.now()}`;
	const minutes = Number(values.minutes);
	if (!(minutes > 0))
		throw new Error(`--minutes ${values.minutes}: not above 0`);
	const start = performance.now();
	const end = start + minutes * 60_000;
	let nextReport = start + REPORT_MS;
	console.log(`seed ${seed}, ${minutes} minutes`);
	const tally = newTally();
	const failed = await campaign(
		seed,
		() => {
			const now = performance.now();
			if (now >= nextReport) {
				nextReport += REPORT_MS;
				console.log(summary(tally, now - start));
			}
			return now < end;
		},
		tally,
		options,
	);
	console.log(summary(tally, performance.now() - start));
	console.log(`faults by kind: ${JSON.stringify(tally.faults)}`);
	if (values.json !== undefined)
		writeFileSync(
			userPath(values.json),
			`${JSON.stringify({ seed, ...tally, operations: operationsOf(tally), failed: failed?.scenario.seed }, null, "\t")}\n`,
		);
	return failed === undefined ? 0 : await showFailure(failed);
}

async function runAgain(seed: string): Promise<number> {
	const whole = makeScenario(seed, options);
	const kept = values["steps-kept"];
	const without = (values.without ?? "")
		.split(",")
		.filter((kind): kind is FaultKind =>
			(FAULT_KINDS as readonly string[]).includes(kind),
		);
	const chosen = kept !== undefined || without.length > 0;
	const positions =
		kept === undefined ? whole.steps.map((_, at) => at) : readRanges(kept);
	const result = await simulate(reduce(whole, positions, without));
	if (result.violation === undefined) {
		console.log(`seed ${seed}: no rule was broken (${result.fingerprint})`);
		return 0;
	}
	if (!chosen) return showFailure(result);
	console.log(explain(result, undefined, extra));
	return 1;
}

async function showFailure(failed: RunResult): Promise<number> {
	console.log(explain(failed, await shrink(failed), extra));
	return 1;
}

function summary(tally: Tally, elapsedMs: number): string {
	const operations = operationsOf(tally);
	return [
		`${(elapsedMs / 60_000).toFixed(1)} min: ${tally.runs} runs`,
		`${operations} operations (${tally.calls} calls, ${tally.results} results of keys)`,
		`${faultsOf(tally)} faults`,
		`${(tally.simulatedMs / 3_600_000).toFixed(1)} h of virtual time`,
		`${Math.round(operations / (elapsedMs / 1000))} operations/s`,
	].join(", ");
}

function count(name: string, text: string | undefined): number | undefined {
	if (text === undefined) return undefined;
	const value = Number(text);
	if (Number.isSafeInteger(value) && value >= 1) return value;
	throw new Error(`--${name} ${text}: not a positive integer`);
}
