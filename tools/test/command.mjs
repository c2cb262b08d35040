/** The test command as a function: bootstrap, steps, summary, exit code. */
import { report } from "../bootstrap/report.mjs";
import { runSteps } from "./run-steps.mjs";
import { add, emptyTally, failure, isGood, lastLine, skip } from "./tally.mjs";

/**
 * @typedef {object} TestCommand
 * @property {readonly import("./steps.mjs").Step[]} steps
 * @property {() => Promise<import("../bootstrap/bootstrap.mjs").Bootstrapped>} bootstrap
 * @property {string} root folder that the steps' `cwd` is relative to
 * @property {string} workFolder where logs and reports go
 * @property {(line: string) => void} print
 * @property {boolean} [verbose] whether to show the output of steps while they run
 * @property {number} [jobs] how many steps may run at a time; default 1
 */

/**
 * Runs everything and prints the summary, whose last line is `N passed, N failed` or
 * `N passed, N failed, N skipped`. Does not throw.
 *
 * @param {TestCommand} options
 * @returns {Promise<0 | 1>} the exit code: 0 when nothing failed and something passed
 */
export async function testCommand(options) {
	const started = performance.now();
	const { print } = options;
	let tally = emptyTally();
	try {
		tally = await runAll(options);
	} catch (error) {
		print(error instanceof Error ? error.message : String(error));
		tally = failure("the test command itself failed");
	}
	if (tally.passed + tally.failed === 0)
		tally = add(tally, failure("nothing ran"));
	if (tally.failures.length > 0) {
		print("failed:");
		for (const line of tally.failures) print(`  ${line}`);
	}
	print(`${((performance.now() - started) / 1000).toFixed(1)} s in all`);
	print(lastLine(tally));
	return isGood(tally) ? 0 : 1;
}

/**
 * @param {TestCommand} options
 * @returns {Promise<import("./tally.mjs").Tally>}
 */
async function runAll({ steps, bootstrap, ...options }) {
	options.print("bootstrap");
	const { parts, usable, env } = await bootstrap();
	report(parts, options.print);
	let tally = emptyTally();
	for (const { name, status, detail } of parts) {
		const line = `bootstrap ${name}: ${detail}`;
		if (status === "failed") tally = add(tally, failure(line));
		if (status === "skipped") tally = add(tally, skip(line));
	}
	if (!usable) return tally;
	options.print("steps");
	return add(tally, await runSteps(steps, { ...options, parts, env }));
}
