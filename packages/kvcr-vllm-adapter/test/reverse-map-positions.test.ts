import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { positionOf, SPACE_BITS } from "../src/reverse-map/key-space.js";

describe("positions in the divided space of a segmented table", () => {
	it("begin at 0 and end at the last one", () => {
		expect(positionOf(0)).toBe(0);
		expect(positionOf(-1)).toBe(2 ** SPACE_BITS - 1);
	});

	it("rise with the mixed hash, read as an unsigned number", () => {
		fc.assert(
			fc.property(
				fc.integer({ min: 0, max: 2 ** 32 - 1 }),
				fc.integer({ min: 0, max: 2 ** 32 - 1 }),
				(a, b) => {
					const [below, above] = a < b ? [a, b] : [b, a];
					expect(positionOf(below | 0)).toBeLessThanOrEqual(
						positionOf(above | 0),
					);
				},
			),
		);
	});

	it("lie up to twice as densely at the end, in geometric shares", () => {
		for (let i = 0; i < 16; i++) {
			const share =
				positionOf(((i + 1) * 2 ** 28 - 1) | 0) - positionOf((i * 2 ** 28) | 0);
			const expected =
				2 ** (1 - i / 16) * (1 - 2 ** (-1 / 16)) * 2 ** SPACE_BITS;
			expect(Math.abs(share / expected - 1)).toBeLessThan(0.02);
		}
	});
});
