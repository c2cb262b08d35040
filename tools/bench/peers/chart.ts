/** The chart of a run: medians as bars on a logarithmic axis, one group per shape. Plain SVG, readable on light and dark pages. */
import { cellOf, type Result } from "./results.js";
import { SHAPES } from "./shapes.js";

const WIDTH = 860;
const LEFT = 210;
const RIGHT = 110;
const BAR = 15;
const GAP = 3;
const HEAD = 30;

const COLORS: Readonly<Record<string, string>> = {
	raw: "#8a8f98",
	"nixl-fetch": "#2563eb",
	"nixl-hints": "#60a5fa",
	python: "#d97706",
	mooncake: "#9333ea",
	"portable-fetch": "#059669",
	"portable-hints": "#6ee7b7",
};

/** The whole picture. */
export function chart(results: readonly Result[]): string {
	const groupHeight = HEAD + results.length * (BAR + GAP) + 12;
	const height = SHAPES.length * groupHeight + 36;
	const times = SHAPES.flatMap((shape) =>
		results.map((result) => cellOf(result, shape).p50Ms),
	).filter((ms) => ms > 0);
	const lowest = 10 ** Math.floor(Math.log10(Math.min(...times)));
	const highest = 10 ** Math.ceil(Math.log10(Math.max(...times)));
	const x = (ms: number): number =>
		LEFT +
		(Math.log10(ms / lowest) / Math.log10(highest / lowest)) *
			(WIDTH - LEFT - RIGHT);
	const parts: string[] = [];
	for (let ms = lowest; ms <= highest * 1.001; ms *= 10)
		parts.push(
			`<line x1="${at(x(ms))}" y1="8" x2="${at(x(ms))}" y2="${height - 26}" stroke="#9ca3af" stroke-width="0.5"/>`,
			`<text x="${at(x(ms))}" y="${height - 10}" text-anchor="middle">${label(ms)}</text>`,
		);
	for (const [group, shape] of SHAPES.entries()) {
		const top = group * groupHeight;
		parts.push(
			`<text x="8" y="${top + 22}" font-weight="bold">${shape.name}</text>`,
		);
		for (const [row, result] of results.entries()) {
			const { p50Ms, gigabytesPerSecond } = cellOf(result, shape);
			const y = top + HEAD + row * (BAR + GAP);
			parts.push(
				`<text x="${LEFT - 6}" y="${y + 12}" text-anchor="end">${result.contender.title}</text>`,
				`<rect x="${LEFT}" y="${y}" width="${at(Math.max(1, x(p50Ms) - LEFT))}" height="${BAR}" fill="${COLORS[result.contender.id] ?? "#666"}"/>`,
				`<text x="${at(x(p50Ms) + 5)}" y="${y + 12}">${label(p50Ms)}, ${gigabytesPerSecond.toPrecision(2)} GB/s</text>`,
			);
		}
	}
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="11" fill="#6b7280">
<title>Median time per transfer, by contender and shape; logarithmic axis</title>
${parts.join("\n")}
</svg>
`;
}

function at(value: number): string {
	return value.toFixed(1);
}

function label(ms: number): string {
	if (ms < 1) return `${Number((ms * 1000).toPrecision(2))} µs`;
	return `${Number(ms.toPrecision(2))} ms`;
}
