/** What the cache benches share: figures with a reference, a table for people and JSON for machines. */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { MemoryRegion } from "../../packages/kvcr-core/src/ports/index.js";

/** One measured figure beside what it should be compared with. */
export interface Figure {
	readonly name: string;
	readonly value: number;
	readonly unit: string;
	readonly referenceName: string;
	readonly referenceValue: number;
	/** What `value / referenceValue` has to be, e.g. `">= 1"`; left out for a figure shown for comparison only. */
	readonly target?: `${">=" | "<="} ${number}`;
}

/** Prints the figures, writes them to the file of `--json FILE`, and fails the process when a target is missed. */
export function report(title: string, figures: readonly Figure[]): void {
	const rows = figures.map((figure) => {
		const ratio = figure.value / figure.referenceValue;
		return {
			name: figure.name,
			value: figure.value,
			unit: figure.unit,
			"reference name": figure.referenceName,
			"reference value": figure.referenceValue,
			ratio,
			target: figure.target ?? null,
			holds: meets(ratio, figure.target),
		};
	});
	console.log(title);
	console.table(
		rows.map((row) => ({
			...row,
			value: rounded(row.value),
			"reference value": rounded(row["reference value"]),
			ratio: rounded(row.ratio),
		})),
	);
	const { values } = parseArgs({ options: { json: { type: "string" } } });
	if (values.json !== undefined) {
		writeFileSync(values.json, `${JSON.stringify(rows, null, "\t")}\n`);
	}
	if (rows.some((row) => row.holds === false)) process.exitCode = 1;
}

/** A region without memory behind it: the cache counts slots and never looks inside. */
export function hollowRegion(slots: number): MemoryRegion {
	return {
		label: "",
		elementBytes: 65_536,
		elementCount: slots,
		descriptor: {
			memType: "DRAM",
			deviceId: 0,
			addr: 0n,
			stride: 0,
			count: slots,
			size: 65_536,
			label: "",
		},
		released: false,
		element: () => new Uint8Array(0),
		release: () => {},
	};
}

/** Null when there is no target. */
function meets(ratio: number, target: Figure["target"]): boolean | null {
	if (target === undefined) return null;
	const [relation, bound] = target.split(" ");
	return relation === ">=" ? ratio >= Number(bound) : ratio <= Number(bound);
}

function rounded(value: number): number {
	return Number(value.toPrecision(4));
}
