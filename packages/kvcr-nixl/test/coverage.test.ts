import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { uncoveredRegion } from "../src/coverage.js";

const region = (addr: bigint, size: number, count: number, stride = 0) => ({
	memType: "DRAM",
	deviceId: 0,
	addr,
	stride,
	count,
	size,
	label: "r",
});
const range = (start: number, end: number) => ({
	start: BigInt(start),
	end: BigInt(end),
});

describe("regions are covered by metadata", () => {
	it.each([
		["by one range", region(100n, 10, 5), [range(100, 150)], true],
		["inside a range", region(110n, 10, 2), [range(100, 150)], true],
		["but for the last byte", region(100n, 10, 5), [range(100, 149)], false],
		["but for the first one", region(100n, 10, 5), [range(101, 200)], false],
		["by nothing", region(100n, 10, 1), [], false],
		[
			"by ranges of whole elements, in any order",
			region(100n, 10, 5),
			[range(120, 150), range(100, 120)],
			true,
		],
		[
			"but for one in the middle",
			region(100n, 10, 5),
			[range(100, 120), range(130, 150)],
			false,
		],
		[
			"not by ranges that meet inside an element",
			region(100n, 10, 5),
			[range(100, 125), range(125, 150)],
			false,
		],
		[
			"with gaps between elements",
			region(100n, 10, 3, 20),
			[range(100, 110), range(120, 130), range(140, 150)],
			true,
		],
		[
			"by a long range that others hide",
			region(100n, 10, 5),
			[range(0, 1000), range(90, 95), range(110, 112)],
			true,
		],
	] as const)("%s", (_how, one, ranges, covered) => {
		const other = region(5_000n, 1, 1);
		expect(
			uncoveredRegion([other, one], [...ranges, range(5_000, 5_001)]),
		).toBe(covered ? undefined : 1);
	});

	it("as looking at every element says", () => {
		const upTo = (max: number) => fc.integer({ min: 0, max });
		const anyRegion = fc
			.tuple(upTo(20), upTo(3), upTo(5), fc.option(upTo(2)))
			.map(([addr, size, count, gap]) =>
				region(
					BigInt(1 + addr),
					1 + size,
					1 + count,
					gap === null ? 0 : 1 + size + gap,
				),
			);
		const anyRange = fc
			.tuple(upTo(30), upTo(20))
			.map(([start, bytes]) => range(start, start + 1 + bytes));
		const found = { covered: 0, uncovered: 0 };
		fc.assert(
			fc.property(
				anyRegion,
				fc.array(anyRange, { maxLength: 6 }),
				(one, ranges) => {
					const covered = Array.from({ length: one.count }, (_, i) => {
						const start = one.addr + BigInt((one.stride || one.size) * i);
						const end = start + BigInt(one.size);
						return ranges.some((r) => r.start <= start && end <= r.end);
					}).every(Boolean);
					expect(uncoveredRegion([one], ranges)).toBe(covered ? undefined : 0);
					found[covered ? "covered" : "uncovered"] += 1;
				},
			),
			{ numRuns: 2_000 },
		);
		expect(found.covered).toBeGreaterThan(0);
		expect(found.uncovered).toBeGreaterThan(0);
	});

	it("or refused in a moment, if there is no end to looking", () => {
		const ranges = Array.from({ length: 50_000 }, (_, i) =>
			range(1 + 10 * i, 11 + 10 * i),
		);
		const regions = Array.from({ length: 4_096 }, () => region(1n, 10, 50_000));
		const begin = performance.now();
		expect(uncoveredRegion(regions, ranges)).toBeGreaterThan(0);
		expect(performance.now() - begin).toBeLessThan(5_000);
	});
});
