import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import { byHash, expectDrained, expectRightBytes } from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overRigs, type Rig } from "./harness/rigs.js";
import type { Worker } from "./harness/worker-handle.js";

/** Blocks of one small piece, and of two of which one takes several steps to hash. */
const POOLS = [
	{ name: "kv", slotBytes: 1 << 20, slotCount: 8 },
	{ name: "indexer", slotBytes: 4_096, slotCount: 8 },
];
const CHECKED = (result: "verified" | "failed") =>
	`kvcr_integrity_checks_total{result="${result}"}`;

async function pair(
	rig: Rig,
	target: Parameters<Rig["worker"]>[1],
): Promise<[Worker, Worker]> {
	const common = { pools: POOLS, integrity: "verify" } as const;
	const workers: [Worker, Worker] = await Promise.all([
		rig.worker("source", common),
		rig.worker("target", { ...common, ...target }),
	]);
	await workers[0].call("deposit", [
		{ key: key(1n), layout: ["indexer"] },
		{ key: key(2n), layout: ["kv", "indexer"] },
	]);
	return workers;
}

/** Time for checksums to be computed behind the deposits, in milliseconds: a block without one is placed unchecked. */
const SETTLE_MS = 1_000;

async function outcomesOfChecked(
	source: Worker,
	target: Worker,
	hashes: readonly bigint[],
) {
	await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
	await target.call("submitHint", hint({ source: source.endpoint, hashes }));
	return byHash(await target.call("outcomes", hashes.length));
}

overRigs(
	"end-to-end integrity",
	[
		["portable", "zmq"],
		["nixl", "zmq"],
	],
	(rig) => {
		it("blocks of one piece and of several arrive checked", async () => {
			const [source, target] = await pair(rig, {});
			expect(await outcomesOfChecked(source, target, [1n, 2n])).toEqual(
				new Map([
					[1n, "placed"],
					[2n, "placed"],
				]),
			);
			const { counters } = await target.call("stats");
			expect(counters[CHECKED("verified")]).toBe(2);
			expectRightBytes(
				await target.call("deliver", [
					{ key: key(2n), layout: ["kv", "indexer"] },
				]),
			);
			await expectDrained(target);
			await expectDrained(source);
		});

		it("a block of which one bit arrived flipped is dropped, counted and never served; the next copy is right", async () => {
			const [source, target] = await pair(rig, { flipsOneBit: true });
			expect(await outcomesOfChecked(source, target, [1n])).toEqual(
				new Map([[1n, "integrity_failed"]]),
			);
			const { counters, cache } = await target.call("stats");
			expect(counters[CHECKED("failed")]).toBe(1);
			expect(cache).toMatchObject({ ready: 0, filling: 0, claims: 0 });
			expect(await target.call("query", [key(1n)])).toEqual([
				{ status: "MISS" },
			]);
			expect(await target.call("inventory")).toEqual([]);

			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n] }),
			);
			expect((await target.call("outcomes", 2)).at(-1)?.outcome).toBe("placed");
			expectRightBytes(
				await target.call("deliver", [{ key: key(1n), layout: ["indexer"] }]),
			);
			await expectDrained(target);
			await expectDrained(source);
		});
	},
);
