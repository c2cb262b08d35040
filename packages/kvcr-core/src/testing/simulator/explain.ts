/** Failed runs in words, with the command that repeats them. */
import { FAULT_KINDS, type FaultKind } from "./faults.js";
import type { Shrunk } from "./shrink.js";
import type { RunResult } from "./simulation.js";

/** Lines of the log shown. */
const SHOWN = 40;

/**
 * Seed, broken rule, last events, and how to run it again.
 * @param extra Arguments that chose the scenario beside the seed.
 */
export function explain(
	result: RunResult,
	shrunk?: Shrunk,
	extra: readonly string[] = [],
): string {
	const { scenario, violation } = result;
	const shown = shrunk?.result ?? result;
	const lines = [
		`seed ${scenario.seed}: ${violation?.message ?? "no rule was broken"}`,
		`last of ${shown.scenario.steps.length} steps${shrunk ? `, shrunk in ${shrunk.runs} runs` : ""}:`,
		...shown.tail.slice(-SHOWN).map((line) => `  ${line}`),
		`  ${shown.violation?.message ?? ""}`,
		"steps:",
		...shown.scenario.steps.map(
			({ after, step }) => `  +${after} ${JSON.stringify(step)}`,
		),
		`faults: ${FAULT_KINDS.filter((kind) => shown.scenario.rates[kind] > 0).join(", ") || "none"}`,
		`setup: ${JSON.stringify(shown.scenario.setup)}`,
		`again: ${command(scenario.seed, extra)}`,
	];
	if (shrunk !== undefined)
		lines.push(
			`smaller: ${command(scenario.seed, [...extra, ...choice(shrunk.kept, shrunk.without)])}`,
		);
	return lines.join("\n");
}

/** Positions as ranges: `0-3,7`. */
export function writeRanges(positions: readonly number[]): string {
	const ranges: string[] = [];
	for (let at = 0; at < positions.length; ) {
		let end = at;
		while (positions[end + 1] === (positions[end] as number) + 1) end += 1;
		ranges.push(
			end === at ? `${positions[at]}` : `${positions[at]}-${positions[end]}`,
		);
		at = end + 1;
	}
	return ranges.join(",");
}

/** The inverse of {@link writeRanges}. */
export function readRanges(text: string): number[] {
	return text
		.split(",")
		.filter((part) => part !== "")
		.flatMap((part) => {
			const [first = "", last = first] = part.split("-");
			const from = Number(first);
			return Array.from(
				{ length: Number(last) - from + 1 },
				(_, i) => from + i,
			);
		});
}

function command(seed: string, args: readonly string[]): string {
	return ["npm run sim --", "--replay", seed, ...args].join(" ");
}

function choice(
	kept: readonly number[],
	without: readonly FaultKind[],
): string[] {
	return [
		"--steps-kept",
		writeRanges(kept),
		...(without.length > 0 ? ["--without", without.join(",")] : []),
	];
}
