import { expect, it } from "vitest";
import type { EngineRequest } from "./engine/requests.js";
import { expectDrained, overNixl, prompt, tally } from "./managers.js";
import { carrying, compose, reportsOf } from "./router.js";

const A: EngineRequest = { id: "a", tokens: prompt(1, 4) };
const B: EngineRequest = { id: "b", tokens: prompt(2, 4) };
const C: EngineRequest = { id: "c", tokens: prompt(3, 2) };
const D: EngineRequest = { id: "d", tokens: prompt(4, 1) };
const SIX: EngineRequest = { id: "six", tokens: prompt(5, 6) };
const UNKNOWN = 0xfedc_ba98_7654_3210n;

overNixl("two managers: failures and races", (stage) => {
	it("partial failures: each hash has its own outcome, and a load keeps the blocks that came", async () => {
		const [source, target] = await Promise.all([
			stage.manager("source", { managedBlocks: 8 }),
			stage.manager("target"),
		]);
		await source.call("run", A);
		await source.call("run", D);
		await source.call("run", { ...D, id: "d-twin", twin: true });
		await expectDrained(source);
		const stale = await reportsOf([source, target]);
		// B pushes the first two blocks of A out of managed memory; the router has not heard of it.
		await source.call("run", B);
		await expectDrained(source);
		const hint = await compose(
			stale,
			target,
			{},
			{ from: source, hashes: [UNKNOWN] },
		);
		const carrier = await target.call("run", { ...C, ...carrying(hint) });
		expect(carrier).toEqual({
			output: await stage.outputWithoutHints(C),
			blocks: { cached: 0, loaded: 0, computed: 2 },
			failedLoads: 0,
		});
		expect(tally(await target.call("outcomes", 6))).toEqual({
			placed: 2,
			not_found: 3,
			ambiguous_hash: 1,
		});
		const advice = await compose(stale, target, {
			from: source,
			hashes: await source.call("hashes", A),
			scope: "request",
			allow_framework: false,
		});
		const loaded = await target.call("run", { ...A, ...carrying(advice) });
		expect(loaded).toMatchObject({
			output: await stage.outputWithoutHints(A),
			failedLoads: 1,
		});
		await expectDrained(source, target);
		const { counters } = (await target.call("stats")).tier.kvcr;
		expect(counters).toMatchObject({
			'kvcr_transfers_total{side="destination",scope="fetch",result="success"}': 1,
		});
	});

	it("a source that died: the load fails in time, and the request computes", async () => {
		const [source, target] = await Promise.all([
			stage.manager("source"),
			stage.manager("target", { operationTimeoutMs: 500 }),
		]);
		await source.call("run", A);
		await expectDrained(source);
		const reports = await reportsOf([source, target]);
		const advice = await compose(reports, target, { scope: "request" });
		const hint = await compose(reports, target, {});
		await source.kill();
		const carrier = await target.call("run", { ...C, ...carrying(hint) });
		expect(carrier.output).toBe(await stage.outputWithoutHints(C));
		const outcomes = await target.call("outcomes", 4);
		for (const { outcome } of outcomes)
			expect(["timeout", "peer_unreachable"]).toContain(outcome);
		const alone = await target.call("run", { ...A, ...carrying(advice) });
		expect(alone).toMatchObject({
			output: await stage.outputWithoutHints(A),
			blocks: { cached: 0, loaded: 0, computed: 4 },
		});
		expect(alone.failedLoads).toBeGreaterThan(0);
		await expectDrained(target);
		expect(await target.shutdown()).toBe(0);
	});

	it.each([
		["from managed memory only: it fails", false],
		["or from the engine under a pin: the block asked for comes", true],
	])(
		"a hash is bound to another block while a hint is under way, %s",
		async (_name, allow_framework) => {
			const operationTimeoutMs = 15_000;
			const [source, target] = await Promise.all([
				stage.manager("source", { managedBlocks: 6, operationTimeoutMs }),
				stage.manager("target", { operationTimeoutMs }),
			]);
			await source.call("run", A);
			await expectDrained(source);
			const hashes = await source.call("hashes", A);
			const hint = await compose(await reportsOf([source, target]), target, {
				allow_framework,
			});
			// The target's owner stops after it has asked: the answer names the block, nothing is fetched yet.
			await target.call("step", false);
			const carried = target.call("run", { ...C, ...carrying(hint) });
			await expect
				.poll(async () => (await target.call("stats")).received, {
					timeout: 10_000,
				})
				.toMatchObject({ hashes_resolved: 1 });
			const twin: EngineRequest = { ...A, id: "a-twin", twin: true };
			expect(await source.call("hashes", twin)).toEqual(hashes);
			await source.call("run", SIX);
			await expectDrained(source);
			await source.call("run", twin);
			await expectDrained(source);
			await target.call("step", true);
			expect(await carried).toMatchObject({
				output: await stage.outputWithoutHints(C),
				blocks: { computed: 2 },
			});
			expect(tally(await target.call("outcomes", 4))).toEqual(
				allow_framework ? { placed: 4 } : { transfer_failed: 4 },
			);
			const served = (await source.call("stats")).servedJobs;
			expect(served > 0).toBe(allow_framework);
			// Either way, the twin has not come in its place.
			const first = await target.call("run", A);
			expect(first).toMatchObject({
				output: await stage.outputWithoutHints(A),
				blocks: allow_framework ? { loaded: 4 } : { computed: 4 },
			});
			// Asked again, the hash names the twin, and only the twin.
			const again = await compose(await reportsOf([source, target]), target, {
				from: source,
				hashes,
				allow_framework,
			});
			await target.call("run", { ...D, ...carrying(again) });
			expect(tally((await target.call("outcomes", 8)).slice(4))).toEqual({
				placed: 4,
			});
			expect(await target.call("run", twin)).toEqual({
				output: await stage.outputWithoutHints(twin),
				blocks: { cached: 0, loaded: 4, computed: 0 },
				failedLoads: 0,
			});
			expect(await stage.outputWithoutHints(twin)).not.toBe(first.output);
			await expectDrained(source, target);
		},
	);

	it("overlapping copies and moves, and a load in the middle: every block arrives, none is lost", async () => {
		const [source, target] = await Promise.all([
			stage.manager("source"),
			stage.manager("target"),
		]);
		await source.call("run", SIX);
		await expectDrained(source);
		const reports = await reportsOf([source, target]);
		const hashes = await source.call("hashes", SIX);
		const part = (from: number, to: number, mode: "copy" | "move") => ({
			from: source,
			hashes: hashes.slice(from, to),
			mode,
		});
		const [one, two, advice] = await Promise.all([
			compose(reports, target, part(0, 4, "copy"), part(2, 6, "move")),
			compose(reports, target, part(1, 4, "move"), part(3, 6, "copy")),
			compose(reports, target, { scope: "request" }),
		]);
		const carriers = [
			{ ...C, ...carrying(one) },
			{ ...D, ...carrying(two) },
			{ ...SIX, ...carrying(advice) },
		];
		const runs = await Promise.all(
			carriers.map((request) => target.call("run", request)),
		);
		const expected = await Promise.all(
			[C, D, SIX].map((request) => stage.outputWithoutHints(request)),
		);
		expect(runs.map(({ output }) => output)).toEqual(expected);
		const outcomes = await target.call("outcomes", 14);
		for (const hash of hashes) {
			const ends = outcomes
				.filter((one) => one.hash === hash)
				.map(({ outcome }) => outcome);
			expect(ends).toContain("placed");
			// A later action may find that the source has given the block away.
			for (const end of ends)
				expect([
					"placed",
					"already_resident",
					"not_found",
					"not_resident",
					"transfer_failed",
				]).toContain(end);
		}
		await expectDrained(source, target);
		await target.call("reset");
		expect(await target.call("run", { ...SIX, id: "later" })).toMatchObject({
			output: expected[2],
			blocks: { cached: 0, loaded: 6, computed: 0 },
		});
		// What no move named is still at the source; what it says it holds is what it holds.
		await source.call("reset");
		const atSource = await source.call("run", { ...SIX, id: "source-later" });
		expect(atSource.output).toBe(expected[2]);
		expect(atSource.blocks.loaded).toBeGreaterThanOrEqual(1);
		await expectDrained(source, target);
	});

	it("hints to oneself, known hashes and unknown: refused before any look-up, and nothing changes", async () => {
		const self = await stage.manager("self");
		await self.call("run", A);
		await expectDrained(self);
		const reports = await reportsOf([self]);
		const aliased = reports.map((report) => ({
			...report,
			control_endpoint: report.control_endpoint.replace(
				"127.0.0.1",
				"localhost",
			),
		}));
		const known = await self.call("hashes", A);
		const entries = (["copy", "move"] as const).flatMap((mode) => [
			{ from: self, hashes: known, mode },
			{ from: self, hashes: [UNKNOWN, 1n], mode },
		]);
		const expected = await stage.outputWithoutHints(C);
		for (const [index, seen] of [reports, aliased].entries()) {
			const hint = await compose(seen, self, ...entries);
			const carrier = await self.call("run", {
				...C,
				...carrying(hint),
				id: `carrier-${index}`,
			});
			expect(carrier.output).toBe(expected);
			const count = 12 * (index + 1);
			expect(tally(await self.call("outcomes", count))).toEqual({
				self_source: count,
			});
		}
		const stats = await self.call("stats");
		expect(stats).toMatchObject({ mapLookups: 0, servedJobs: 0 });
		expect(stats.tier.kvcr.counters).not.toHaveProperty(
			'kvcr_transfer_blocks_total{side="source"}',
		);
		await expectDrained(self);
		// Nothing of A has left, and its bytes are what they were.
		const [after] = await reportsOf([self]);
		expect(after?.events.filter(({ removed }) => removed)).toEqual([]);
		await self.call("reset");
		expect(await self.call("run", { ...A, id: "later" })).toEqual({
			output: await stage.outputWithoutHints(A),
			blocks: { cached: 0, loaded: 4, computed: 0 },
			failedLoads: 0,
		});
	});
});
