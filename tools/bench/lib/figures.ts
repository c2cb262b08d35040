/** Figures of benches: each beside what it should be compared with, as a table for people and as JSON for machines. */
import { writeFileSync } from "node:fs";

/** One measured figure. */
export interface Figure {
	readonly name: string;
	readonly value: number;
	readonly unit: string;
	/** What it is compared with, measured in the same run. */
	readonly reference?: { readonly name: string; readonly value: number };
	/** What `value / reference` has to be, or the value itself where there is no reference. */
	readonly target?: `${">=" | "<="} ${number}`;
}

/** A figure with its verdict, as it appears in `--json FILE`. */
export interface JudgedFigure {
	readonly name: string;
	readonly value: number;
	readonly unit: string;
	readonly "reference name": string | null;
	readonly "reference value": number | null;
	readonly ratio: number | null;
	readonly target: string | null;
	/** Null where there is no target. */
	readonly holds: boolean | null;
}

/** Computes ratio and verdict. */
export function judge({
	name,
	value,
	unit,
	reference,
	target,
}: Figure): JudgedFigure {
	const ratio = reference === undefined ? null : value / reference.value;
	return {
		name,
		value,
		unit,
		"reference name": reference?.name ?? null,
		"reference value": reference?.value ?? null,
		ratio,
		target: target ?? null,
		holds: target === undefined ? null : meets(ratio ?? value, target),
	};
}

/** Prints figures as a table with aligned columns. */
export function printFigures(
	title: string,
	figures: readonly JudgedFigure[],
): void {
	const head = [
		"figure",
		"value",
		"unit",
		"reference",
		"value",
		"ratio",
		"target",
		"",
	];
	const rows = figures.map((figure) => [
		figure.name,
		rounded(figure.value),
		figure.unit,
		figure["reference name"] ?? "",
		rounded(figure["reference value"]),
		rounded(figure.ratio),
		figure.target ?? "",
		figure.holds === null ? "" : figure.holds ? "holds" : "MISSED",
	]);
	const widths = head.map((title, at) =>
		Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)),
	);
	const right = new Set([1, 4, 5]);
	const line = (cells: readonly string[]): string =>
		cells
			.map((cell, at) =>
				right.has(at)
					? cell.padStart(widths[at] ?? 0)
					: cell.padEnd(widths[at] ?? 0),
			)
			.join("  ")
			.trimEnd();
	console.log(`\n${title}`);
	console.log(
		[
			line(head),
			widths.map((width) => "-".repeat(width)).join("  "),
			...rows.map(line),
		].join("\n"),
	);
}

/** Writes figures for machines. */
export function writeFigures(
	file: string,
	figures: readonly JudgedFigure[],
): void {
	writeFileSync(file, `${JSON.stringify(figures, null, "\t")}\n`);
}

/** The value below which a share of the samples lies; 0 for no samples. */
export function percentile(samples: readonly number[], share: number): number {
	const sorted = [...samples].sort((a, b) => a - b);
	return (
		sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
	);
}

function meets(value: number, target: string): boolean {
	const [relation, bound] = target.split(" ");
	return relation === ">=" ? value >= Number(bound) : value <= Number(bound);
}

function rounded(value: number | null): string {
	if (value === null) return "";
	return Math.abs(value) >= 1000
		? String(Math.round(value))
		: String(Number(value.toPrecision(3)));
}
