/** Collects what the test command counts: one test for each thing checked, in groups. */
import { writeFileSync } from "node:fs";

export class Report {
	/** @type {Map<string, import("../test/tally.mjs").FileReport>} */
	#groups = new Map();

	/** True while nothing failed. */
	get good() {
		return [...this.#groups.values()].every(
			({ status }) => status === "passed",
		);
	}

	/**
	 * Notes a test and prints what is wrong.
	 *
	 * @param {string} group
	 * @param {string} title
	 * @param {readonly string[]} problems none: passed
	 */
	take(group, title, problems) {
		const failed = problems.length > 0;
		for (const problem of problems)
			console.log(`${group}: ${title}: ${problem}`);
		this.#add(group, title, failed ? "failed" : "passed");
	}

	/**
	 * Notes a test that cannot run here. Continuous integration has everything, so there it fails.
	 *
	 * @param {string} group
	 * @param {string} title
	 * @param {string} reason
	 */
	skip(group, title, reason) {
		if (process.env.CI === "true") this.take(group, title, [reason]);
		else this.#add(group, `${title} (${reason})`, "skipped");
	}

	/** Writes the report where the test command wants it, if it does. */
	write() {
		const file = process.env.KVCR_TEST_REPORT;
		if (file === undefined) return;
		const testResults = [...this.#groups.values()];
		writeFileSync(file, JSON.stringify({ testResults }));
	}

	/**
	 * @param {string} name
	 * @param {string} title
	 * @param {"passed" | "failed" | "skipped"} status
	 */
	#add(name, title, status) {
		const group = this.#groups.get(name) ?? {
			name,
			status: "passed",
			assertionResults: [],
		};
		this.#groups.set(name, group);
		group.assertionResults.push({ title: `${name}: ${title}`, status });
		if (status === "failed") group.status = "failed";
	}
}
