/** Makes a failing scenario small: fewer steps, fewer kinds of faults, the same rule broken. */
import { FAULT_KINDS, type FaultKind, type FaultRates } from "./faults.js";
import type { Scenario } from "./scenario.js";
import { type RunResult, simulate } from "./simulation.js";

/** A failing scenario made smaller. */
export interface Shrunk {
	/** Its run. */
	readonly result: RunResult;
	/** Positions of the steps that are left, in the scenario of the seed. */
	readonly kept: readonly number[];
	/** Kinds of faults that are left out beyond those the seed leaves out. */
	readonly without: readonly FaultKind[];
	/** Runs it took. */
	readonly runs: number;
}

/** Chooses parts of a scenario. */
export function reduce(
	scenario: Scenario,
	kept: readonly number[],
	without: readonly FaultKind[],
): Scenario {
	const rates: Record<string, number> = { ...scenario.rates };
	for (const kind of without) rates[kind] = 0;
	return {
		...scenario,
		rates: rates as unknown as FaultRates,
		steps: kept.flatMap((at) => scenario.steps[at] ?? []),
	};
}

/**
 * Leaves out steps and faults as long as the same rule stays broken.
 * @param maxRuns Most runs to spend.
 */
export async function shrink(
	failed: RunResult,
	maxRuns = 300,
): Promise<Shrunk> {
	const { scenario, violation } = failed;
	let kept = scenario.steps.map((_, at) => at);
	let without: FaultKind[] = [];
	let result = failed;
	let runs = 0;
	const attempt = async (
		steps: readonly number[],
		left: readonly FaultKind[],
	): Promise<boolean> => {
		if (runs >= maxRuns) return false;
		runs += 1;
		const candidate = await simulate(reduce(scenario, steps, left));
		if (candidate.violation?.rule !== violation?.rule) return false;
		result = candidate;
		kept = [...steps];
		without = [...left];
		return true;
	};
	for (const kind of FAULT_KINDS)
		if (scenario.rates[kind] > 0) await attempt(kept, [...without, kind]);
	// In ever smaller pieces, from the end: what comes after the failure goes first.
	for (let size = kept.length >> 1; size > 0; size >>= 1) {
		for (let end = kept.length; end > 0 && runs < maxRuns; ) {
			const start = Math.max(0, end - size);
			await attempt([...kept.slice(0, start), ...kept.slice(end)], without);
			end = start;
		}
	}
	return { result, kept, without, runs };
}
