import { describe, expect, it } from "vitest";
import { type CopyJob, LocalCopier } from "../src/owner/local-copier.js";
import { ManualClock } from "../src/testing/index.js";

const MIB = 1 << 20;

describe("a copier that is closed in the middle of a block", () => {
	it("fails that block, and copies what is still asked for from its first byte", () => {
		const clock = new ManualClock();
		const copier = new LocalCopier(clock, (task) => task());
		const ended: [number, boolean][] = [];
		const job = (entry: number): CopyJob => ({
			sources: [new Uint8Array(10 * MIB).fill(entry)],
			targets: [new Uint8Array(10 * MIB)],
			listener: { copied: (which, ok) => void ended.push([which, ok]) },
			entry,
			cancelled: false,
		});
		copier.copy([job(1)]);
		clock.runNext();
		expect(ended).toEqual([]);
		copier.close();
		expect(ended).toEqual([[1, false]]);
		const second = job(2);
		copier.copy([second]);
		while (ended.length < 2 && clock.runNext()) {
			// Slice by slice.
		}
		expect(ended[1]).toEqual([2, true]);
		const [copy] = second.targets;
		expect(copy?.every((byte) => byte === 2)).toBe(true);
		copier.close();
	});
});
