/**
 * Counting: turns what a step left behind (exit code, report) into passed, failed and skipped tests.
 *
 * Suspicious by design. A report that is missing, unreadable or empty, a status never heard of, an
 * exit code that the report does not explain: each is a failure.
 */

/**
 * @typedef {object} Tally
 * @property {number} passed
 * @property {number} failed
 * @property {number} skipped
 * @property {string[]} failures a line for each failure
 * @property {string[]} skips a line for each skipped test
 */

/**
 * The part of vitest's JSON report that is read here; steps with a report of their own write the same.
 *
 * @typedef {object} Report
 * @property {FileReport[]} testResults
 */

/**
 * @typedef {object} FileReport
 * @property {string} name file, or whatever the tests belong to
 * @property {string} status "failed" without a failed test in it means that the file did not load
 * @property {string} [message]
 * @property {{ fullName?: string, title: string, status: string }[]} assertionResults
 */

/** @returns {Tally} */
export function emptyTally() {
	return { passed: 0, failed: 0, skipped: 0, failures: [], skips: [] };
}

/**
 * The sum of two tallies.
 *
 * @param {Tally} a
 * @param {Tally} b
 * @returns {Tally}
 */
export function add(a, b) {
	return {
		passed: a.passed + b.passed,
		failed: a.failed + b.failed,
		skipped: a.skipped + b.skipped,
		failures: [...a.failures, ...b.failures],
		skips: [...a.skips, ...b.skips],
	};
}

/**
 * One failure, with what to print about it.
 *
 * @param {string} line
 * @returns {Tally}
 */
export function failure(line) {
	return { ...emptyTally(), failed: 1, failures: [line] };
}

/**
 * One skipped thing, with the reason.
 *
 * @param {string} line
 * @returns {Tally}
 */
export function skip(line) {
	return { ...emptyTally(), skipped: 1, skips: [line] };
}

/**
 * A step that counts as one test: its exit code decides.
 *
 * @param {number | null} code
 * @returns {Tally}
 */
export function tallyExit(code) {
	return code === 0 ? { ...emptyTally(), passed: 1 } : failure(exitLine(code));
}

/**
 * A step that reports its tests one by one.
 *
 * @param {string | undefined} text the report as written; undefined when there is none
 * @param {number | null} code
 * @returns {Tally}
 */
export function tallyReport(text, code) {
	const report = parse(text);
	if (report === undefined)
		return failure(
			`${text === undefined ? "left no report" : "left a report that cannot be read"} (${exitLine(code)})`,
		);
	let tally = emptyTally();
	for (const file of report.testResults) tally = add(tally, tallyFile(file));
	if (tally.passed + tally.failed + tally.skipped === 0)
		return failure(`ran no tests (${exitLine(code)})`);
	// Errors outside any test (an unhandled rejection, a crashed worker) show in the exit code alone.
	if (code !== 0 && tally.failed === 0)
		return add(tally, failure(`no test failed, yet it ${exitLine(code)}`));
	return tally;
}

/**
 * The last line of the test command.
 *
 * @param {Tally} tally
 */
export function lastLine({ passed, failed, skipped }) {
	const line = `${passed} passed, ${failed} failed`;
	return skipped > 0 ? `${line}, ${skipped} skipped` : line;
}

/**
 * Whether a whole run may be called good: nothing failed, and something ran.
 *
 * @param {Tally} tally
 */
export function isGood({ passed, failed }) {
	return failed === 0 && passed > 0;
}

/**
 * @param {FileReport} file
 * @returns {Tally}
 */
function tallyFile(file) {
	const tally = emptyTally();
	for (const test of file.assertionResults) {
		const title = test.fullName ?? test.title;
		switch (test.status) {
			case "passed":
				tally.passed += 1;
				break;
			case "skipped":
			case "pending":
			case "todo":
			case "disabled":
				tally.skipped += 1;
				tally.skips.push(title);
				break;
			default:
				tally.failed += 1;
				tally.failures.push(`${title} (${test.status})`);
		}
	}
	if (file.status !== "passed" && tally.failed === 0)
		return add(
			tally,
			failure(
				`${file.name}: ${file.status}${file.message ? `: ${file.message.split("\n")[0]}` : ""}`,
			),
		);
	return tally;
}

/**
 * @param {string | undefined} text
 * @returns {Report | undefined}
 */
function parse(text) {
	try {
		const value = JSON.parse(text ?? "");
		const files = value?.testResults;
		const valid =
			Array.isArray(files) &&
			files.every((file) => Array.isArray(file?.assertionResults));
		return valid ? value : undefined;
	} catch {
		return undefined;
	}
}

/** @param {number | null} code */
function exitLine(code) {
	return code === null ? "was ended or did not start" : `exited with ${code}`;
}
