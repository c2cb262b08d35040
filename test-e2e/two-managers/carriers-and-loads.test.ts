import { expect, it } from "vitest";
import type { EngineRequest } from "./engine/requests.js";
import { expectDrained, overNixl, prompt, tally } from "./managers.js";
import { carrying, compose, reportsOf } from "./router.js";

const A: EngineRequest = { id: "a", tokens: prompt(1, 4) };
const B: EngineRequest = { id: "b", tokens: prompt(2, 3), loraName: "lora-b" };
const C: EngineRequest = { id: "c", tokens: prompt(3, 2), cacheSalt: "tenant" };

overNixl("two managers: carriers and loads", (stage) => {
	it.each([32, 16] as const)(
		"an unrelated request carries a hint, and later requests load what it brought (hashes of %i bytes)",
		async (hashBytes) => {
			const [source, target] = await Promise.all([
				stage.manager("source", { hashBytes }),
				stage.manager("target", { hashBytes }),
			]);
			await source.call("run", A);
			await source.call("run", B);
			await expectDrained(source);
			const hint = await compose(await reportsOf([source, target]), target, {});
			expect(JSON.parse(hint).actions[0].payload.block_hashes).toHaveLength(7);
			const carrier = await target.call("run", { ...C, ...carrying(hint) });
			expect(carrier.blocks).toEqual({ cached: 0, loaded: 0, computed: 2 });
			expect(carrier.output).toBe(
				await stage.outputWithoutHints(C, { hashBytes }),
			);
			expect(tally(await target.call("outcomes", 7))).toEqual({ placed: 7 });
			for (const request of [A, B]) {
				const blocks = Math.floor(request.tokens.length / 16);
				const later = await target.call("run", request);
				expect(later.blocks).toEqual({
					cached: 0,
					loaded: blocks,
					computed: 0,
				});
				expect(later.failedLoads).toBe(0);
				expect(later.output).toBe(
					await stage.outputWithoutHints(request, { hashBytes }),
				);
			}
			// The router hears of it, and has nothing left to say.
			await expectDrained(source, target);
			const after = await reportsOf([source, target]);
			await expect(compose(after, target, {})).rejects.toThrow(
				"no worker holds",
			);
			expect(await source.shutdown()).toBe(0);
			expect(await target.shutdown()).toBe(0);
		},
	);

	it("ordinary loads: from memory of one's own, from a peer's, and from a peer's engine under a pin", async () => {
		const [source, target] = await Promise.all([
			stage.manager("source"),
			stage.manager("target"),
		]);
		const output = await stage.outputWithoutHints(A);
		await source.call("run", A);
		await expectDrained(source);
		await source.call("reset");
		expect(await source.call("run", { ...A, id: "own" })).toEqual({
			output,
			blocks: { cached: 0, loaded: 4, computed: 0 },
			failedLoads: 0,
		});
		await expectDrained(source);
		// The source's engine holds A as well now, but managed memory comes first.
		const advice = { scope: "request" } as const;
		const managed = await compose(
			await reportsOf([source, target]),
			target,
			advice,
		);
		expect(
			await target.call("run", { ...A, ...carrying(managed), id: "peer" }),
		).toEqual({
			output,
			blocks: { cached: 0, loaded: 4, computed: 0 },
			failedLoads: 0,
		});
		await expectDrained(source, target);
		const before = await source.call("stats");
		expect(before).toMatchObject({ servedJobs: 0, mapLookups: 0 });
		expect((await target.call("stats")).mapLookups).toBe(0);

		// This one keeps nothing in managed memory: its engine's blocks are read under store jobs.
		const bare = await stage.manager("bare", { managedBlocks: 0 });
		await bare.call("run", B);
		await expectDrained(bare);
		const pinned = await compose(await reportsOf([bare, target]), target, {
			...advice,
			from: bare,
		});
		const loaded = await target.call("run", { ...B, ...carrying(pinned) });
		expect(loaded).toEqual({
			output: await stage.outputWithoutHints(B),
			blocks: { cached: 0, loaded: 3, computed: 0 },
			failedLoads: 0,
		});
		expect((await bare.call("stats")).servedJobs).toBeGreaterThan(0);
		await expectDrained(bare, target);
	});

	it("two groups of one cache: hashes are ambiguous, loads by full key are not", async () => {
		const groups = 2;
		const [source, target] = await Promise.all([
			stage.manager("source", { groups }),
			stage.manager("target", { groups }),
		]);
		await source.call("run", A);
		await expectDrained(source);
		const reports = await reportsOf([source, target]);
		const carrier = await target.call("run", {
			...C,
			...carrying(await compose(reports, target, {})),
		});
		expect(carrier.output).toBe(await stage.outputWithoutHints(C, { groups }));
		expect(tally(await target.call("outcomes", 4))).toEqual({
			ambiguous_hash: 4,
		});
		const advice = await compose(reports, target, { scope: "request" });
		const loaded = await target.call("run", { ...A, ...carrying(advice) });
		expect(loaded).toEqual({
			output: await stage.outputWithoutHints(A, { groups }),
			blocks: { cached: 0, loaded: 8, computed: 0 },
			failedLoads: 0,
		});
		await expectDrained(source, target);
	});

	it("KV cache events disabled: nothing to route by, hashes cannot be resolved, loads still work", async () => {
		const [source, target] = await Promise.all([
			stage.manager("source", { events: false }),
			stage.manager("target"),
		]);
		await source.call("run", A);
		await expectDrained(source);
		const reports = await reportsOf([source, target]);
		expect(reports[0]).toMatchObject({ router_capabilities: [] });
		expect(
			reports[0]?.events.filter(({ ownership }) => ownership === "kvcr"),
		).toEqual([]);
		const hashes = await source.call("hashes", A);
		const named = { from: source, hashes };
		await expect(compose(reports, target, {})).rejects.toThrow(
			"no worker holds",
		);
		await expect(compose(reports, target, named)).rejects.toThrow(
			"router_hint",
		);
		const forced = await compose(reports, target, { ...named, force: true });
		const carrier = await target.call("run", { ...C, ...carrying(forced) });
		expect(carrier.output).toBe(await stage.outputWithoutHints(C));
		expect(tally(await target.call("outcomes", 4))).toEqual({
			lookup_failed: 4,
		});
		const advice = await compose(reports, target, {
			...named,
			scope: "request",
		});
		const loaded = await target.call("run", { ...A, ...carrying(advice) });
		expect(loaded).toEqual({
			output: await stage.outputWithoutHints(A),
			blocks: { cached: 0, loaded: 4, computed: 0 },
			failedLoads: 0,
		});
		await expectDrained(source, target);
	});
});
