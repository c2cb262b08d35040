/** Runs test steps, a few at a time, and adds up what they came to. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { run, tail } from "../bootstrap/lib/exec.mjs";
import {
	add,
	emptyTally,
	failure,
	skip,
	tallyExit,
	tallyReport,
} from "./tally.mjs";

const DEFAULT_TIMEOUT_MS = 180_000;

/** How much of a failed step's output is printed, in lines. The rest is in its log. */
const SHOWN_LINES = 150;

/**
 * @typedef {object} RunStepsOptions
 * @property {string} root folder that the steps' `cwd` is relative to
 * @property {string} workFolder where logs and reports go
 * @property {readonly import("../bootstrap/lib/part.mjs").PartResult[]} parts what the bootstrap made of its parts
 * @property {NodeJS.ProcessEnv} env
 * @property {(line: string) => void} print
 * @property {boolean} [verbose] whether to show the output of steps while they run
 * @property {number} [jobs] how many steps may run at a time; default 1
 */

/**
 * Starts the steps in order, each as soon as there is room and the steps it comes after are done; a failure does not keep
 * later steps from running, unless they ask for it.
 *
 * @param {readonly import("./steps.mjs").Step[]} steps
 * @param {RunStepsOptions} options
 * @returns {Promise<import("./tally.mjs").Tally>} of all steps; the failures are prefixed with the step's name
 */
export async function runSteps(steps, options) {
	mkdirSync(options.workFolder, { recursive: true });
	const { jobs = 1 } = options;
	/** @type {Set<string>} */
	const failed = new Set();
	const waiting = [...steps];
	/** @type {Map<string, Promise<void>>} */
	const running = new Map();
	let total = emptyTally();
	/** @param {import("./steps.mjs").Step} step */
	const start = async (step) => {
		const started = performance.now();
		const { tally, output } = await runStep(step, failed, options);
		if (tally.failed > 0) failed.add(step.name);
		print(step, tally, performance.now() - started, options.print);
		if (tally.failed > 0 && output !== "" && !options.verbose)
			options.print(indent(tail(output, SHOWN_LINES)));
		total = add(total, {
			...tally,
			failures: tally.failures.map((line) => `${step.name}: ${line}`),
		});
		running.delete(step.name);
	};
	/** Whether a step that another comes after is still to be done. @param {string} name */
	const open = (name) =>
		running.has(name) || waiting.some((step) => step.name === name);
	while (waiting.length > 0 || running.size > 0) {
		const next = waiting.findIndex((step) => !step.after?.some(open));
		if (next >= 0 && running.size < jobs) {
			const [step] = waiting.splice(next, 1);
			if (step !== undefined) running.set(step.name, start(step));
		} else if (running.size > 0) await Promise.race(running.values());
		else throw new Error("steps come after each other in a circle");
	}
	return total;
}

/**
 * @param {import("./steps.mjs").Step} step
 * @param {ReadonlySet<string>} failed
 * @param {RunStepsOptions} options
 * @returns {Promise<{ tally: import("./tally.mjs").Tally, output: string }>}
 */
async function runStep(step, failed, options) {
	const broken = step.after?.find((name) => failed.has(name));
	if (broken !== undefined)
		return { tally: failure(`not run: ${broken} failed`), output: "" };
	const lacking = options.parts.find(
		({ name, status }) => step.needs?.includes(name) && status !== "ready",
	);
	if (lacking !== undefined)
		return {
			tally: skip(`needs ${lacking.name}: ${lacking.detail}`),
			output: "",
		};

	const file = join(options.workFolder, step.name.replace(/[^\w.-]+/g, "-"));
	const reportFile = `${file}.json`;
	rmSync(reportFile, { force: true });
	const [program = "", ...args] = step.command;
	if (step.report === "vitest")
		args.push(
			...["--reporter=default", "--reporter=json"],
			`--outputFile.json=${reportFile}`,
		);
	const { code, output } = await run(program, args, {
		cwd: join(options.root, step.cwd ?? "."),
		env: {
			...options.env,
			NO_COLOR: "1",
			TURBO_TELEMETRY_DISABLED: "1",
			KVCR_TEST_REPORT: reportFile,
			...step.env,
			PATH: [join(options.root, "node_modules/.bin"), options.env.PATH]
				.filter(Boolean)
				.join(delimiter),
		},
		timeoutMs: step.timeoutMs ?? DEFAULT_TIMEOUT_MS,
		...(options.verbose
			? { onOutput: (text) => process.stdout.write(text) }
			: {}),
	});
	writeFileSync(`${file}.log`, output);
	const tally =
		step.report === undefined
			? tallyExit(code)
			: tallyReport(read(reportFile), code);
	return { tally, output };
}

/**
 * @param {import("./steps.mjs").Step} step
 * @param {import("./tally.mjs").Tally} tally
 * @param {number} ms
 * @param {(line: string) => void} out
 */
function print(step, tally, ms, out) {
	const { passed, failed, skipped, skips } = tally;
	const word = failed > 0 ? "FAILED" : passed > 0 ? "ok" : "skipped";
	const counts = [
		`${passed} passed`,
		failed > 0 && `${failed} failed`,
		skipped > 0 && `${skipped} skipped`,
	];
	out(
		`  ${word.padEnd(7)} ${step.name.padEnd(22)} ${counts.filter(Boolean).join(", ").padEnd(34)} ${(ms / 1000).toFixed(1).padStart(6)} s`,
	);
	for (const line of skips) out(`          skipped: ${line}`);
	for (const line of tally.failures) out(`          failed: ${line}`);
}

/** @param {string} text */
function indent(text) {
	return text
		.split("\n")
		.map((line) => `    | ${line}`)
		.join("\n");
}

/** @param {string} file */
function read(file) {
	try {
		return readFileSync(file, "utf8");
	} catch {
		return undefined;
	}
}
