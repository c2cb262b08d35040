/** Expectations that many scenarios share. */
import type { HintOutcomeReport } from "kvcr-core";
import { expect } from "vitest";
import type { EntryReport } from "./commands.js";
import type { TestWorker } from "./worker-handle.js";

/** Outcomes by hash. */
export function byHash(
	outcomes: readonly HintOutcomeReport[],
): Map<bigint, string> {
	return new Map(outcomes.map(({ hash, outcome }) => [hash, outcome]));
}

/** Every entry succeeded with right bytes. */
export function expectRightBytes(entries: readonly EntryReport[]): void {
	expect(
		entries.map(({ status, reason, bytesOk }) => ({ status, reason, bytesOk })),
	).toEqual(
		entries.map(() => ({
			status: "SUCCESS",
			reason: undefined,
			bytesOk: true,
		})),
	);
}

/** Releases what entries claimed. */
export async function release(
	worker: TestWorker,
	entries: readonly EntryReport[],
): Promise<void> {
	const handles = entries.flatMap(({ releaseHandle }) => releaseHandle ?? []);
	expect(await worker.call("release", handles)).toEqual(
		handles.map(() => true),
	);
}

/** Waits until a worker holds nothing but ready blocks: no claim, pin, advice, open operation, transfer or quarantined slot. */
export async function expectDrained(worker: TestWorker): Promise<void> {
	await expect
		.poll(
			async () => {
				const stats = await worker.call("stats");
				return {
					claims: stats.cache?.claims,
					filling: stats.cache?.filling,
					discarding: stats.cache?.discarding,
					quarantined: stats.cache?.pools.reduce(
						(sum, pool) => sum + pool.quarantined,
						0,
					),
					handles: stats.cache?.handles,
					pins: stats.pins,
					advice: stats.advice,
					open: stats.operations.open,
					transfers: stats.transfers,
					hintsPending: stats.hintsPending,
				};
			},
			{ timeout: 15_000, interval: 50 },
		)
		.toEqual({
			claims: 0,
			filling: 0,
			discarding: 0,
			quarantined: 0,
			handles: 0,
			pins: { held: 0, pending: 0, releasing: 0 },
			advice: 0,
			open: 0,
			transfers: { pulls: {}, writes: 0 },
			hintsPending: 0,
		});
}
