/**
 * A deterministic simulator: several instances in one process on a virtual clock, with faults in everything around them,
 * and an oracle that knows what each byte must be. Everything follows from a seed.
 *
 * ```ts
 * const result = await simulate(makeScenario("seed 1"));
 * if (result.violation) console.log(explain(result));
 * ```
 */
export {
	campaign,
	faultsOf,
	newTally,
	operationsOf,
	type Tally,
} from "./campaign.js";
export { explain, readRanges } from "./explain.js";
export { FAULT_KINDS, type FaultKind, type FaultRates } from "./faults.js";
export {
	makeScenario,
	type Scenario,
	type ScenarioOptions,
	type Setup,
	type Step,
	type TimedStep,
} from "./scenario.js";
export { reduce, type Shrunk, shrink } from "./shrink.js";
export { type RunResult, simulate } from "./simulation.js";
export { SimViolation } from "./violation.js";
