/** Peers that meet, leave and come back, across the two languages. */

import { freePort } from "kvcr-core/testing";
import { expect, it } from "vitest";
import { key } from "../harness/blocks.js";
import { expectRightBytes } from "../harness/expect.js";
import { hint } from "../harness/hint.js";
import { Worker } from "../harness/worker-handle.js";
import { overDirections, type Peer } from "./pairs.js";
import { connectedTargets, expectSettled, standStill } from "./settled.js";

const PATIENT = { operationTimeoutMs: 5_000, abandonTimeoutMs: 12_000 };

async function advise(
	target: Peer,
	source: Peer,
	hashes: readonly bigint[],
	requestId: string,
): Promise<void> {
	await target.call(
		"submitHint",
		hint({ source: source.endpoint, hashes }),
		requestId,
	);
}

overDirections("life", (pairs, sourceKind, targetKind) => {
	it("a hint alone connects a target that connects eagerly, and only the first transfer one that does not", async () => {
		const source = await pairs.peer(sourceKind, PATIENT);
		await source.call("deposit", [{ key: key(1n) }]);
		const eager = await pairs.peer(targetKind, PATIENT);
		await advise(eager, source, [1n], "request");
		await expect
			.poll(() => connectedTargets(source), { timeout: 5_000 })
			.toBe(1);
		const lazy = await pairs.peer(targetKind, {
			...PATIENT,
			eagerConnect: false,
		});
		await advise(lazy, source, [1n], "request");
		await lazy.call("query", [key(1n)], "request");
		await new Promise((resolve) => setTimeout(resolve, 300));
		expect(await connectedTargets(source)).toBe(1);
		for (const target of [eager, lazy])
			expectRightBytes(
				await target.call("fetch", [key(1n)], { requestId: "request" }),
			);
		await expect
			.poll(() => connectedTargets(source), { timeout: 5_000 })
			.toBe(2);
	});

	it("a restarted source refuses what was meant for its predecessor, gets the metadata again and serves", async () => {
		const port = await freePort();
		const options = { ...PATIENT, port, agentName: `source-${port}` };
		const [first, target] = await pairs.both(
			sourceKind,
			options,
			targetKind,
			PATIENT,
		);
		await first.call("deposit", [{ key: key(1n) }]);
		await advise(target, first, [1n, 2n], "before");
		expectRightBytes(
			await target.call("fetch", [key(1n)], { requestId: "before" }),
		);
		await first.kill();
		const second = await pairs.peer(sourceKind, options);
		await second.call("deposit", [{ key: key(2n) }, { key: key(3n) }]);
		const startedAt = performance.now();
		await advise(target, second, [2n, 3n], "after");
		const once = await target.call("fetch", [key(2n)], { requestId: "after" });
		if (targetKind === "typescript") expectRightBytes(once);
		else {
			// Python fails the operation that the refusal hits, and introduces itself again with the next one.
			expect(once).toMatchObject([{ status: "FAILED" }]);
			await target.call("discardHint", "after");
			await advise(target, second, [2n, 3n], "again");
			expectRightBytes(
				await target.call("fetch", [key(2n)], { requestId: "again" }),
			);
		}
		// None of it waited for a deadline.
		expect(performance.now() - startedAt).toBeLessThan(
			PATIENT.operationTimeoutMs,
		);
		const refusals = second instanceof Worker ? second : target;
		if (refusals instanceof Worker)
			expect(
				Object.keys((await refusals.call("stats")).counters).filter((name) =>
					name.startsWith("kvcr_writes_refused_total"),
				),
			).toHaveLength(1);
		await target.call("discardHint", "before");
		await expectSettled(second);
	});

	it("a restarted target is served under its old name, in its new memory", async () => {
		const port = await freePort();
		const options = { ...PATIENT, port, agentName: `target-${port}` };
		const source = await pairs.peer(sourceKind, PATIENT);
		await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
		for (let life = 0; life < 3; life += 1) {
			const target = await pairs.peer(targetKind, options);
			await advise(target, source, [1n, 2n], "request");
			expectRightBytes(
				await target.call("fetch", [key(1n), key(2n)], {
					requestId: "request",
				}),
			);
			await expectSettled(source);
			if (life === 1) await target.close();
			else await target.kill();
		}
		expect(await connectedTargets(source)).toBe(1);
	});

	if (sourceKind === "typescript")
		it("memory that a dead source might have written to comes back once its successor proves the death", async () => {
			const port = await freePort();
			const options = { ...PATIENT, port };
			const source = await pairs.typescript(options);
			const target = await pairs.python({
				operationTimeoutMs: 1_000,
				abandonTimeoutMs: 2_500,
			});
			await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			await advise(target, source, [1n, 2n], "request");
			expectRightBytes(
				await target.call("fetch", [key(1n)], { requestId: "request" }),
			);
			await standStill(source);
			expect(
				await target.call("fetch", [key(2n)], { requestId: "request" }),
			).toMatchObject([{ status: "FAILED" }]);
			await source.kill();
			await pairs.typescript(options);
			await expect
				.poll(async () => (await target.call("state")).gauges.in_flight_ops, {
					timeout: 15_000,
				})
				.toBe(0);
		});

	it("both sides close, in either order, and their processes end by themselves", async () => {
		for (const order of ["source first", "target first"]) {
			const [source, target] = await pairs.both(
				sourceKind,
				PATIENT,
				targetKind,
				{ operationTimeoutMs: 2_000, abandonTimeoutMs: 4_000 },
			);
			await source.call("deposit", [{ key: key(1n) }]);
			await advise(target, source, [1n, 2n], "request");
			expectRightBytes(
				await target.call("fetch", [key(1n)], { requestId: "request" }),
			);
			const [one, other] =
				order === "source first" ? [source, target] : [target, source];
			expect(await one.close()).toBe(0);
			if (order === "source first" && targetKind === "typescript") {
				// Nobody is there any more: the rest fails by its deadline. (A Python target with such an operation does not
				// close: it never learns that its memory is safe.)
				expect(
					await other.call("fetch", [key(2n)], { requestId: "request" }),
				).toMatchObject([{ status: "FAILED" }]);
			}
			expect(await other.close()).toBe(0);
		}
	});
});
