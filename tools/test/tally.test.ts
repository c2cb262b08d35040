import { describe, expect, test } from "vitest";
import {
	add,
	emptyTally,
	failure,
	isGood,
	lastLine,
	tallyExit,
	tallyReport,
} from "./tally.mjs";

/** A report on one file with tests of these statuses. */
function reportOf(statuses: string[], fileStatus = "passed"): string {
	return JSON.stringify({
		testResults: [
			{
				name: "some.test.ts",
				status: fileStatus,
				assertionResults: statuses.map((status, index) => ({
					title: `test ${index}`,
					status,
				})),
			},
		],
	});
}

describe("a step that counts as one test", () => {
	test("passes on exit code 0 alone", () => {
		expect(tallyExit(0)).toMatchObject({ passed: 1, failed: 0 });
		expect(tallyExit(1)).toMatchObject({ passed: 0, failed: 1 });
		expect(tallyExit(null)).toMatchObject({ passed: 0, failed: 1 });
	});
});

describe("a step with a report", () => {
	test("counts its tests by status", () => {
		const statuses = ["passed", "passed", "failed", "skipped", "todo"];
		expect(tallyReport(reportOf(statuses, "failed"), 1)).toMatchObject({
			passed: 2,
			failed: 1,
			skipped: 2,
		});
	});

	test("counts a status it does not know as a failure", () => {
		expect(tallyReport(reportOf(["splendid"]), 0).failed).toBe(1);
	});

	test("counts a file that did not load as a failure", () => {
		const { failed, failures } = tallyReport(reportOf([], "failed"), 1);
		expect(failed).toBe(1);
		expect(failures[0]).toContain("some.test.ts");
	});

	test.each([
		["is missing", undefined],
		["is not JSON", "{"],
		["has another shape", '{"testResults":[{}]}'],
		["has no tests", '{"testResults":[]}'],
	])("fails when it %s, even on exit code 0", (_how, text) => {
		expect(tallyReport(text, 0)).toMatchObject({ passed: 0, failed: 1 });
	});

	test("fails when the exit code says more than the tests do", () => {
		expect(tallyReport(reportOf(["passed"]), 1)).toMatchObject({
			passed: 1,
			failed: 1,
		});
		expect(tallyReport(reportOf(["passed"]), null).failed).toBe(1);
	});

	test("does not count one failure twice", () => {
		expect(tallyReport(reportOf(["failed"], "failed"), 1).failed).toBe(1);
	});
});

describe("the whole", () => {
	test("ends in a line that names skipped tests only when there are some", () => {
		const some = { ...emptyTally(), passed: 12 };
		expect(lastLine(some)).toBe("12 passed, 0 failed");
		expect(lastLine({ ...some, failed: 3, skipped: 1 })).toBe(
			"12 passed, 3 failed, 1 skipped",
		);
	});

	test("is good when nothing failed and something passed", () => {
		const passed = { ...emptyTally(), passed: 1 };
		expect(isGood(passed)).toBe(true);
		expect(isGood(add(passed, failure("no")))).toBe(false);
		expect(isGood(emptyTally())).toBe(false);
		expect(isGood({ ...emptyTally(), skipped: 4 })).toBe(false);
	});
});
