/** Many runs: one seed after the other until the time is up, or something is wrong. */
import { makeScenario, type ScenarioOptions } from "./scenario.js";
import { type RunResult, simulate } from "./simulation.js";

/** What a campaign has done. */
export interface Tally {
	/** Scenarios that were run to their end. */
	runs: number;
	/** API calls. */
	calls: number;
	/** Results of keys, and outcomes of hashes of independent hints, each of which was checked. */
	results: number;
	/** Faults by kind. */
	readonly faults: Record<string, number>;
	/** Virtual milliseconds. */
	simulatedMs: number;
}

/** Calls, and results per key or hash: what counts as an operation here. Messages, writes, polls and timers do not. */
export function operationsOf(tally: Pick<Tally, "calls" | "results">): number {
	return tally.calls + tally.results;
}

/** An empty tally. */
export function newTally(): Tally {
	return { runs: 0, calls: 0, results: 0, faults: {}, simulatedMs: 0 };
}

/** All faults of a tally. */
export function faultsOf(tally: Tally): number {
	return Object.values(tally.faults).reduce((sum, count) => sum + count, 0);
}

/**
 * Runs the scenarios `SEED/0`, `SEED/1`, … while `goOn` says so.
 * @returns the first run with a broken rule, if there was one.
 */
export async function campaign(
	seed: string,
	goOn: (tally: Tally) => boolean,
	tally: Tally,
	options: ScenarioOptions = {},
): Promise<RunResult | undefined> {
	while (goOn(tally)) {
		const result = await simulate(
			makeScenario(`${seed}/${tally.runs}`, options),
		);
		tally.runs += 1;
		tally.calls += result.calls;
		tally.results += result.results;
		tally.simulatedMs += result.elapsedMs;
		for (const [kind, count] of Object.entries(result.faults))
			tally.faults[kind] = (tally.faults[kind] ?? 0) + count;
		if (result.violation !== undefined) return result;
	}
	return undefined;
}
