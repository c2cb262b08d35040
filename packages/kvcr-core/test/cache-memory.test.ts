import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { ManagedCache } from "../src/cache/index.js";
import { keyText, silentLogger, systemClock } from "../src/ports/index.js";
import { testRegion } from "./cache-kit.js";

const BLOCKS = 100_000;
const BATCH = 100;

it("a resident block takes at most 400 bytes of heap, its key and map entry included", () => {
	setFlagsFromString("--expose-gc");
	const collect = runInNewContext("gc") as () => void;
	const cache = new ManagedCache({
		pools: [{ name: "kv", region: testRegion(BLOCKS, 1) }],
		clock: systemClock,
		logger: silentLogger,
	});
	collect();
	const before = process.memoryUsage().heapUsed;
	for (let first = 0; first < BLOCKS; first += BATCH) {
		const batch = Array.from({ length: BATCH }, (_, i) => {
			const key = Buffer.alloc(32, 7);
			key.writeUInt32LE(first + i);
			return { keyText: keyText(key), layout: ["kv"] };
		});
		for (const outcome of cache.admit(batch, "deposit")) {
			if (outcome.kind !== "reserved") throw new Error(outcome.kind);
			cache.completeFill(outcome.residency);
			cache.unclaim(outcome.residency);
		}
		cache.settle();
	}
	collect();
	const perBlock = (process.memoryUsage().heapUsed - before) / BLOCKS;
	expect(cache.stats()).toMatchObject({ ready: BLOCKS });
	expect(perBlock).toBeGreaterThan(50);
	expect(perBlock).toBeLessThanOrEqual(400);
});
