/** Plain text tables. */

/** Columns as wide as their widest cell, under a rule; all but the first two align right. */
export function table(
	head: readonly string[],
	rows: readonly (readonly string[])[],
): string {
	const widths = head.map((title, at) =>
		rows.reduce(
			(width, row) => Math.max(width, row[at]?.length ?? 0),
			title.length,
		),
	);
	const line = (cells: readonly string[]): string =>
		cells
			.map((cell, at) =>
				at < 2 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0),
			)
			.join("  ")
			.trimEnd();
	return [
		line(head),
		widths.map((width) => "-".repeat(width)).join("  "),
		...rows.map(line),
	].join("\n");
}
