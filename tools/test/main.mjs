/**
 * `npm test [-- [--verbose] [STEP...]]`: bootstraps and runs the steps in `steps.mjs`, or those whose
 * names contain one of the words given. The last line says how it went.
 */
import { join } from "node:path";
import { bootstrap } from "../bootstrap/bootstrap.mjs";
import { withLock } from "../bootstrap/lib/lock.mjs";
import { cache, root } from "../bootstrap/lib/paths.mjs";
import { report } from "../bootstrap/report.mjs";
import { runSteps } from "./run-steps.mjs";
import { steps } from "./steps.mjs";
import { add, emptyTally, failure, isGood, lastLine, skip } from "./tally.mjs";

/** How long to wait for another test run of this clone, in milliseconds. */
const LOCK_WAIT_MS = 900_000;

const interrupt = new AbortController();
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]))
	process.once(signal, () => interrupt.abort());

const started = performance.now();
let tally = emptyTally();
try {
	const lock = { waitMs: LOCK_WAIT_MS, log: console.log };
	tally = await withLock(join(cache, "test.lock"), lock, runAll);
} catch (error) {
	console.log(error instanceof Error ? error.message : error);
	tally = failure("the test command itself failed");
}
if (tally.failures.length > 0)
	console.log(
		["", "failed:", ...tally.failures.map((f) => `  ${f}`)].join("\n"),
	);
console.log(`\n${((performance.now() - started) / 1000).toFixed(1)} s`);
console.log(lastLine(tally));
process.exitCode = isGood(tally) ? 0 : 1;

/** @returns {Promise<import("./tally.mjs").Tally>} */
async function runAll() {
	const args = process.argv.slice(2);
	const words = args.filter((arg) => arg !== "--verbose");
	const chosen = steps.filter(
		({ name }) =>
			words.length === 0 || words.some((word) => name.includes(word)),
	);

	console.log("bootstrap");
	const { parts, usable, env } = await bootstrap();
	report(parts);
	const prepared = parts
		.filter(({ status }) => status !== "ready")
		.map(({ name, status, detail }) =>
			status === "failed"
				? failure(`bootstrap ${name}: ${detail}`)
				: skip(`bootstrap ${name}: ${detail}`),
		)
		.reduce(add, emptyTally());
	if (!usable) return prepared;

	console.log("steps");
	const ran = await runSteps(chosen, {
		root,
		workFolder: join(cache, "test"),
		parts,
		env,
		print: console.log,
		signal: interrupt.signal,
		verbose: args.includes("--verbose"),
	});
	return add(prepared, ran);
}
