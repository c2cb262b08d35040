import { describe, expect, it } from "vitest";
import {
	campaign,
	explain,
	faultsOf,
	makeScenario,
	newTally,
	operationsOf,
	readRanges,
	reduce,
	shrink,
	simulate,
} from "../src/testing/index.js";
import { writeRanges } from "../src/testing/simulator/explain.js";
import { MUTANTS } from "./simulator-mutants.js";

/** Operations of the ordinary test, and of the search for each broken variant at most. */
const BUDGET = 200_000;

describe("the simulator", () => {
	it("finds every rule kept over 200,000 operations with faults", {
		timeout: 300_000,
	}, async () => {
		const tally = newTally();
		const failed = await campaign(
			"npm test",
			(so) => operationsOf(so) < BUDGET,
			tally,
		);
		if (failed !== undefined)
			expect.fail(explain(failed, await shrink(failed)));
		expect(operationsOf(tally)).toBeGreaterThanOrEqual(BUDGET);
		expect(faultsOf(tally)).toBeGreaterThan(BUDGET / 50);
	});

	it("does the same for the same seed, and something else for another", async () => {
		for (const seed of ["one", "two", "three"]) {
			const first = await simulate(makeScenario(seed));
			const second = await simulate(makeScenario(seed));
			expect(second.fingerprint).toBe(first.fingerprint);
			expect(second).toEqual(first);
			expect((await simulate(makeScenario(`${seed}!`))).fingerprint).not.toBe(
				first.fingerprint,
			);
		}
	});

	it("names every kind of fault in a campaign of some runs", async () => {
		const tally = newTally();
		await campaign("kinds", ({ runs }) => runs < 150, tally);
		const { rates } = makeScenario("kinds/0");
		expect(Object.keys(tally.faults).sort()).toEqual(
			expect.arrayContaining([
				...Object.keys(rates),
				...["close", "crash", "lock", "partition", "silence", "stall"],
			]),
		);
	});

	it("writes and reads positions as ranges", () => {
		const positions = [0, 1, 2, 5, 7, 8];
		expect(writeRanges(positions)).toBe("0-2,5,7-8");
		expect(readRanges("0-2,5,7-8")).toEqual(positions);
		expect(readRanges("")).toEqual([]);
	});
});

describe("the simulator finds", () => {
	it.each(MUTANTS)(
		"that $name",
		{ timeout: 300_000 },
		async ({ apply, rules }) => {
			const mend = apply();
			try {
				const failed = await campaign(
					"broken",
					(tally) => operationsOf(tally) < BUDGET,
					newTally(),
				);
				expect(rules).toContain(failed?.violation?.rule);
			} finally {
				mend();
			}
		},
	);
});

describe("a failed run", () => {
	it("shrinks, and is repeated exactly by the command that is printed", {
		timeout: 60_000,
	}, async () => {
		const mutant = MUTANTS.find(({ rules }) => rules.includes("completion"));
		const mend = mutant?.apply() ?? (() => {});
		try {
			const failed = await campaign("shrinks", () => true, newTally());
			if (failed === undefined) return expect.fail("nothing failed");
			const shrunk = await shrink(failed, 120);
			expect(shrunk.kept.length).toBeLessThan(failed.scenario.steps.length / 3);
			const text = explain(failed, shrunk, ["--peers", "4"]);
			const command = /smaller: npm run sim -- (.*)$/m.exec(text)?.[1] ?? "";
			const kept = /--steps-kept (\S+)/.exec(command)?.[1] ?? "";
			const again = await simulate(
				reduce(
					makeScenario(failed.scenario.seed),
					readRanges(kept),
					shrunk.without,
				),
			);
			expect(again.fingerprint).toBe(shrunk.result.fingerprint);
			expect(again.violation?.message).toBe(shrunk.result.violation?.message);
			expect(command).toContain(`--replay ${failed.scenario.seed}`);
		} finally {
			mend();
		}
	});
});
