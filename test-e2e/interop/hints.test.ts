/** Hints: what one side writes the other reads, hashes to all 64 bits, and what a Python peer does with what it does not know. */
import { expect, it } from "vitest";
import { key } from "../harness/blocks.js";
import { byHash, expectRightBytes, release } from "../harness/expect.js";
import { hint } from "../harness/hint.js";
import { withPairs } from "./pairs.js";
import { expectSettled } from "./settled.js";

/** Neither is a double: rounded to one, each becomes the other's neighbor. */
const HUGE = 13_835_058_055_282_163_713n;
const LARGEST = 18_446_744_073_709_551_615n;
const PATIENT = { operationTimeoutMs: 5_000, abandonTimeoutMs: 12_000 };

withPairs("hints", (pairs) => {
	it("an envelope composed here is understood by Python, with hashes beyond 2^53", async () => {
		const [source, target] = await Promise.all([
			pairs.typescript(PATIENT),
			pairs.python(PATIENT),
		]);
		await source.call("deposit", [{ key: key(HUGE) }, { key: key(LARGEST) }]);
		await target.call(
			"submitHint",
			hint({ source: source.endpoint, hashes: [HUGE, LARGEST] }),
			"request",
		);
		const asked = [HUGE - 1n, HUGE, HUGE + 1n, LARGEST - 1n, LARGEST];
		expect(
			(
				await target.call(
					"query",
					asked.map((hash) => key(hash)),
					"request",
				)
			).map(({ status }) => status),
		).toEqual(["MISS", "FETCHABLE", "MISS", "MISS", "FETCHABLE"]);
		expectRightBytes(
			await target.call("fetch", [key(HUGE), key(LARGEST)], {
				requestId: "request",
			}),
		);
	});

	it("an envelope written by Python is understood here, with hashes beyond 2^53, in both scopes", async () => {
		const [python, source, target] = await Promise.all([
			pairs.python(PATIENT),
			pairs.typescript(PATIENT),
			pairs.typescript(PATIENT),
		]);
		await source.call("deposit", [{ key: key(HUGE) }, { key: key(LARGEST) }]);
		const text = await python.call("envelope", source.endpoint, [
			HUGE,
			LARGEST,
		]);
		expect(text).toContain(String(HUGE));
		await target.call("submitHint", text, "request");
		const asked = [HUGE - 1n, HUGE, HUGE + 1n, LARGEST - 1n, LARGEST];
		expect(
			(
				await target.call(
					"query",
					asked.map((hash) => key(hash)),
					"request",
				)
			).map(({ status }) => status),
		).toEqual(["MISS", "FETCHABLE", "MISS", "MISS", "FETCHABLE"]);
		// Without a request it is placement at once.
		await target.call("submitHint", text);
		expect(byHash(await target.call("outcomes", 2))).toEqual(
			new Map([
				[HUGE, "placed"],
				[LARGEST, "placed"],
			]),
		);
	});

	it("Python refuses an envelope that asks for what it cannot do, and is none the worse for it", async () => {
		const [source, target] = await Promise.all([
			pairs.typescript(PATIENT),
			pairs.python(PATIENT),
		]);
		await source.call("deposit", [{ key: key(1n) }]);
		const { endpoint } = source;
		await expect(
			target.call(
				"submitHint",
				hint({ source: endpoint, hashes: [1n], mode: "move" }),
				"request",
			),
		).rejects.toThrow(/copy/);
		await target.call(
			"submitHint",
			hint({ source: endpoint, hashes: [1n] }),
			"request",
		);
		expectRightBytes(
			await target.call("fetch", [key(1n)], { requestId: "request" }),
		);
	});

	it("resolution at a Python source ends in `timeout` for every hash, and its other traffic goes on meanwhile", async () => {
		const source = await pairs.python(PATIENT);
		const target = await pairs.typescript({
			operationTimeoutMs: 2_000,
			abandonTimeoutMs: 12_000,
		});
		const hashes = Array.from({ length: 8 }, (_, i) => HUGE + BigInt(i));
		await source.call(
			"deposit",
			hashes.map((hash) => ({ key: key(hash) })),
		);
		await target.call(
			"submitHint",
			hint({ source: source.endpoint, hashes, scope: "independent" }),
			"carrier",
		);
		await target.call(
			"submitHint",
			hint({ source: source.endpoint, hashes }),
			"request",
		);
		// One after the other, from before the resolution is given up until after.
		const startedAt = performance.now();
		const claimed = [];
		for (const hash of hashes) {
			const entries = await target.call("fetch", [key(hash)], {
				requestId: "request",
			});
			expectRightBytes(entries);
			claimed.push(...entries);
			await new Promise((resolve) => setTimeout(resolve, 350));
		}
		expect(performance.now() - startedAt).toBeGreaterThan(2_000);
		const outcomes = await target.call("outcomes", hashes.length);
		expect(byHash(outcomes)).toEqual(
			new Map(hashes.map((hash) => [hash, "timeout"])),
		);
		await release(target, claimed);
		await target.call("discardHint", "request");
		await expectSettled(target);
		await expectSettled(source);
		expect(source.errors).not.toMatch(/Traceback|WARNING|ERROR/);
	});

	it("a move from a Python source is a copy there, and framework memory may serve it whatever was asked", async () => {
		const source = await pairs.python({
			...PATIENT,
			frameworkBlocks: [{ key: key(2n), layout: ["kv"] }],
		});
		const target = await pairs.typescript(PATIENT);
		await source.call("deposit", [{ key: key(1n) }]);
		await target.call(
			"submitHint",
			hint({
				source: source.endpoint,
				hashes: [1n, 2n],
				mode: "move",
				allowFramework: false,
			}),
			"request",
		);
		expectRightBytes(
			await target.call("fetch", [key(1n), key(2n)], { requestId: "request" }),
		);
		await expectSettled(source);
		expect(await source.call("query", [key(1n)])).toMatchObject([
			{ status: "HIT", tier: "DRAM" },
		]);
	});
});
