/** Reporting outcomes: in order, each once, and never so many at a time that the event loop stands still. */
import { describe, expect, it } from "vitest";
import {
	type HintOutcomeReport,
	MAX_REPORTS_PER_TURN,
	OutcomeReporter,
} from "../src/hints/outcomes.js";
import type { RouterHash } from "../src/ports/index.js";
import { ManualClock } from "../src/testing/manual-clock.js";

const report = (hash: number): HintOutcomeReport => ({
	hintId: "hint-1",
	actionId: undefined,
	source: "tcp://s:1",
	hash: BigInt(hash) as RouterHash,
	outcome: "timeout",
	bytes: 0,
	elapsedMs: 0,
});

function setUp() {
	const time = new ManualClock();
	const made: number[] = [];
	let drift = 0;
	const reporter = new OutcomeReporter(
		{
			// Making a report takes time, as it does in earnest.
			now: () => time.now() + drift,
			schedule: (delayMs, callback) => time.schedule(delayMs, callback),
		},
		({ hash }) => {
			drift += 0.005;
			made.push(Number(hash));
		},
		() => {},
	);
	return { time, made, reporter };
}

describe("the outcome reporter", () => {
	it("makes a few reports at once, without a timer", () => {
		const { time, made, reporter } = setUp();
		for (let i = 0; i < 10; i++) reporter.report(report(i));
		expect(made).toHaveLength(10);
		expect(time.pending).toBe(0);
	});

	it("spreads a burst over turns, however long each report takes, and keeps the order", () => {
		const { time, made, reporter } = setUp();
		const count = 10 * MAX_REPORTS_PER_TURN;
		for (let i = 0; i < count; i++) reporter.report(report(i));
		expect(made).toHaveLength(MAX_REPORTS_PER_TURN);
		let before = made.length;
		while (time.runNext()) {
			expect(made.length - before).toBeLessThanOrEqual(MAX_REPORTS_PER_TURN);
			before = made.length;
		}
		expect(made).toEqual(Array.from({ length: count }, (_, i) => i));
		expect(reporter.waiting).toBe(0);
		expect(time.pending).toBe(0);
	});

	it("makes reports at once again after a pause", () => {
		const { time, made, reporter } = setUp();
		for (let i = 0; i < MAX_REPORTS_PER_TURN; i++) reporter.report(report(i));
		time.advance(10);
		reporter.report(report(5_000));
		expect(made.at(-1)).toBe(5_000);
		expect(time.pending).toBe(0);
	});

	it("flushes what waits and arms nothing after", () => {
		const { time, made, reporter } = setUp();
		for (let i = 0; i < 3_000; i++) reporter.report(report(i));
		reporter.flush();
		expect(made).toHaveLength(3_000);
		expect(time.pending).toBe(0);
	});
});
