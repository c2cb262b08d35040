/** A source that stands still: deadlines, probes, quarantine, and what happens when it goes on. */
import { beforeAll, expect, it } from "vitest";
import { key } from "../harness/blocks.js";
import { expectRightBytes } from "../harness/expect.js";
import { hint } from "../harness/hint.js";
import { Worker } from "../harness/worker-handle.js";
import { overDirections, type Peer } from "./pairs.js";
import { PythonPeer } from "./python-peer.js";
import { expectSettled, standStill } from "./settled.js";

/** Of the source: longer than it is stopped, so that it goes on serving afterwards. */
const PATIENT = { operationTimeoutMs: 8_000, abandonTimeoutMs: 20_000 };
/** Of the target. */
const OPERATION_MS = 1_200;
const ABANDON_MS = 3_000;

async function advise(
	target: Peer,
	source: Peer,
	requestId: string,
): Promise<void> {
	await target.call(
		"submitHint",
		hint({ source: source.endpoint, hashes: BLOCKS }),
		requestId,
	);
}

const BLOCKS = [1n, 2n, 3n, 4n, 5n, 6n, 7n];

/** A pair that has moved block 1; the others are at the source. */
async function metPair(
	pairs: Parameters<Parameters<typeof overDirections>[1]>[0],
	sourceKind: "python" | "typescript",
	targetKind: "python" | "typescript",
	sourceOptions: { operationTimeoutMs: number; abandonTimeoutMs: number },
): Promise<[Peer, Peer]> {
	const [source, target] = await pairs.both(
		sourceKind,
		sourceOptions,
		targetKind,
		{ operationTimeoutMs: OPERATION_MS, abandonTimeoutMs: ABANDON_MS },
	);
	await source.call(
		"deposit",
		BLOCKS.map((hash) => ({ key: key(hash) })),
	);
	await advise(target, source, "first");
	const entries = await target.call("fetch", [key(1n)], { requestId: "first" });
	expectRightBytes(entries);
	await target.call(
		"release",
		entries.flatMap(({ releaseHandle }) => releaseHandle ?? []),
	);
	await target.call("discardHint", "first");
	return [source, target];
}

/** The next fetch works, and nothing is left over of anything. */
async function expectService(
	source: Peer,
	target: Peer,
	...hashes: readonly bigint[]
): Promise<void> {
	await advise(target, source, "later");
	const entries = await target.call(
		"fetch",
		hashes.map((hash) => key(hash)),
		{ requestId: "later" },
	);
	expectRightBytes(entries);
	await target.call(
		"release",
		entries.flatMap(({ releaseHandle }) => releaseHandle ?? []),
	);
	await target.call("discardHint", "later");
	await expectSettled(target);
	await expectSettled(source);
}

overDirections("deadlines", (pairs, sourceKind, targetKind) => {
	let source: Peer;
	let target: Peer;
	beforeAll(async () => {
		[source, target] = await metPair(pairs, sourceKind, targetKind, PATIENT);
	});

	it("a fetch from a stopped source fails at its deadline; the source goes on, answers the probe, and serves again", async () => {
		await standStill(source);
		await advise(target, source, "stopped");
		const startedAt = performance.now();
		expect(
			await target.call("fetch", [key(2n)], { requestId: "stopped" }),
		).toMatchObject([{ status: "FAILED" }]);
		const elapsed = performance.now() - startedAt;
		expect(elapsed).toBeGreaterThanOrEqual(OPERATION_MS - 20);
		expect(elapsed).toBeLessThan(OPERATION_MS + 1_500);
		// A late success never revives what failed.
		source.signal("SIGCONT");
		await target.call("discardHint", "stopped");
		await expectSettled(target);
		expect(await target.call("query", [key(2n)])).toMatchObject([
			{ status: "MISS" },
		]);
		await expectService(source, target, 2n, 3n);
	});

	it("memory stays in quarantine past the abandonment deadline, and comes back when the source answers", async () => {
		await standStill(source);
		await advise(target, source, "stopped");
		expect(
			await target.call("fetch", [key(4n)], { requestId: "stopped" }),
		).toMatchObject([{ status: "FAILED" }]);
		await expect
			.poll(() => uncertain(target), { timeout: 5_000, interval: 50 })
			.toBe(true);
		source.signal("SIGCONT");
		await target.call("discardHint", "stopped");
		await expect
			.poll(() => uncertain(target), { timeout: 15_000, interval: 50 })
			.toBe(false);
		await expectService(source, target, 4n, 5n);
	});

	it("a delivery to a stopped source ends uncertain at the abandonment deadline, not before", async () => {
		await standStill(source);
		await advise(target, source, "stopped");
		const startedAt = performance.now();
		expect(
			await target.call("deliver", [{ key: key(6n) }], "stopped"),
		).toMatchObject([
			// Python has no reasons.
			targetKind === "typescript"
				? { status: "FAILED", reason: "uncertain" }
				: { status: "FAILED" },
		]);
		const elapsed = performance.now() - startedAt;
		expect(elapsed).toBeGreaterThanOrEqual(ABANDON_MS - 40);
		expect(elapsed).toBeLessThan(ABANDON_MS + 1_500);
		source.signal("SIGCONT");
		await target.call("discardHint", "stopped");
		await expectService(source, target, 6n, 7n);
	});

	it("a source that stood still longer than its own operation timeout refuses writes at once: Python for good, ours for a while", async () => {
		const [source, target] = await metPair(pairs, sourceKind, targetKind, {
			operationTimeoutMs: 1_500,
			abandonTimeoutMs: 4_000,
		});
		await standStill(source);
		await advise(target, source, "stopped");
		const stopped = target.call("fetch", [key(2n)], { requestId: "stopped" });
		await new Promise((resolve) => setTimeout(resolve, 2_000));
		source.signal("SIGCONT");
		expect(await stopped).toMatchObject([{ status: "FAILED" }]);
		await target.call("discardHint", "stopped");
		await expectSettled(target);
		if (sourceKind === "typescript") {
			await new Promise((resolve) => setTimeout(resolve, 2_000));
			await expectService(source, target, 2n, 3n);
			return;
		}
		await advise(target, source, "later");
		const startedAt = performance.now();
		expect(
			await target.call("fetch", [key(3n)], { requestId: "later" }),
		).toMatchObject([{ status: "FAILED" }]);
		expect(performance.now() - startedAt).toBeLessThan(OPERATION_MS - 200);
		await target.call("discardHint", "later");
		await expectSettled(target);
	});
});

/** Whether a target has memory that a write may still reach although its caller was told. */
async function uncertain(target: Peer): Promise<boolean> {
	if (target instanceof Worker) {
		return ((await target.call("stats")).transfers.pulls.quarantined ?? 0) > 0;
	}
	if (!(target instanceof PythonPeer)) throw new Error("unknown kind of peer");
	const { reports } = await target.call("state");
	const count = (state: string): number =>
		reports.filter((report) => report.includes(`state=${state}`)).length;
	return count("uncertain") > count("quiesced");
}
