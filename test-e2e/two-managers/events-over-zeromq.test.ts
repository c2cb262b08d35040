import { expect, it } from "vitest";
import type { EngineRequest } from "./engine/requests.js";
import type { ManagerProcess } from "./manager-process.js";
import {
	expectDrained,
	overNixl,
	prompt,
	type Stage,
	tally,
} from "./managers.js";
import { carrying, compose, type RouteEntry, reportsOf } from "./router.js";

const A: EngineRequest = { id: "a", tokens: prompt(1, 4) };
const B: EngineRequest = { id: "b", tokens: prompt(2, 3), loraName: "lora-b" };
const C: EngineRequest = { id: "c", tokens: prompt(3, 2) };
const D: EngineRequest = { id: "d", tokens: prompt(4, 1) };

// Every block is stored twice, in memory of the engine and in managed memory, and reported from both.
overNixl("two managers: events over ZeroMQ", (stage) => {
	it.each(["map", "array"] as const)(
		"hashes are resolved that only events (as %ss) have told about, and what they name comes",
		async (eventStream) => {
			const [source, deaf, bare, target] = await Promise.all([
				stage.manager("source", { eventStream }),
				stage.manager("deaf", { eventStream }),
				stage.manager("bare", { eventStream, managedBlocks: 0 }),
				stage.manager("target"),
			]);
			await deaf.call("events", "lost");
			for (const manager of [source, deaf, bare]) await manager.call("run", A);
			await expectDrained(source, deaf, bare);
			await expectIntake(source, { storedBlocks: 8, gaps: 0 });
			await expectIntake(bare, { storedBlocks: 4, gaps: 0 });
			// What no event tells about is unknown; what it tells about is known, managed or not.
			expect(await ends(stage, deaf, target, A)).toEqual({ not_found: 4 });
			expect(await ends(stage, bare, target, A)).toEqual({ not_resident: 4 });
			expect(await ends(stage, source, target, A)).toEqual({ placed: 4 });
			expect(await target.call("run", A)).toEqual({
				output: await stage.outputWithoutHints(A),
				blocks: { cached: 0, loaded: 4, computed: 0 },
				failedLoads: 0,
			});
			expect((await source.call("stats")).mapLookups).toBeGreaterThan(0);
			// The engine forgets its blocks, and says so; there are no others here.
			await bare.call("reset");
			await expectIntake(bare, { removedBlocks: 4 });
			expect(await ends(stage, bare, target, A)).toEqual({
				not_found: 4,
			});
			await expectDrained(source, deaf, bare, target);
			expect(await source.shutdown()).toBe(0);
		},
	);

	it("events lost on the way are replayed: stores, and removals of what is not there any more", async () => {
		const [source, target, later] = await Promise.all([
			stage.manager("source", { eventStream: "map" }),
			stage.manager("target"),
			stage.manager("later"),
		]);
		await source.call("run", D);
		await expectDrained(source);
		await expectIntake(source, { storedBlocks: 2 });
		await source.call("events", "kept");
		await source.call("run", A);
		await expectDrained(source);
		expect(await ends(stage, source, target, A)).toEqual({ not_found: 4 });
		// The next batch shows that some are missing.
		await source.call("events", "sent");
		await source.call("run", B);
		await expectDrained(source);
		await expectIntake(source, { storedBlocks: 16 });

		// A leaves the source, which again nobody hears of: hashes still name what is gone.
		await source.call("events", "kept");
		const moved = await ends(stage, source, target, A, "move");
		expect(moved).toEqual({ placed: 4 });
		await source.call("reset");
		await expectDrained(source, target);
		await expectRemovals(source, 12);
		expect(await ends(stage, source, later, A)).toEqual({ not_resident: 4 });
		await source.call("events", "sent");
		await source.call("run", { ...D, id: "d-again" });
		await expectIntake(source, { storedBlocks: 17, removedBlocks: 12 });
		expect(await ends(stage, source, later, A)).toEqual({ not_found: 4 });
		expect(await ends(stage, source, later, D)).toEqual({ placed: 1 });

		const { gaps, recovered, clears } = await source.call("intake");
		expect(gaps).toBeGreaterThanOrEqual(2);
		expect(recovered).toBeGreaterThanOrEqual(2);
		expect(clears).toMatchObject({ gap_not_replayable: 0, restarted: 0 });
		await expectDrained(source, target, later);
		expect(await source.shutdown()).toBe(0);
	});

	it("events lost for good: the map forgets what it can no longer vouch for, and loads by full key go on", async () => {
		const [source, target] = await Promise.all([
			stage.manager("source", { eventStream: "map" }),
			stage.manager("target"),
		]);
		await source.call("run", A);
		await expectDrained(source);
		await expectIntake(source, { storedBlocks: 8 });
		await source.call("events", "lost");
		await source.call("run", B);
		await expectDrained(source);
		await source.call("events", "sent");
		await source.call("run", D);
		await expectDrained(source);
		await expectIntake(source, { storedBlocks: 10 });
		const { clears } = await source.call("intake");
		expect(clears).toMatchObject({ gap_not_replayable: 1, restarted: 0 });
		expect(await ends(stage, source, target, A)).toEqual({ not_found: 4 });
		expect(await ends(stage, source, target, D)).toEqual({ placed: 1 });
		const advice = await compose(await reportsOf([source, target]), target, {
			from: source,
			hashes: await source.call("hashes", A),
			scope: "request",
		});
		const loaded = await target.call("run", { ...A, ...carrying(advice) });
		expect(loaded).toEqual({
			output: await stage.outputWithoutHints(A),
			blocks: { cached: 0, loaded: 4, computed: 0 },
			failedLoads: 0,
		});
		await expectDrained(source, target);
		expect(await source.shutdown()).toBe(0);
	});
});

let carriers = 0;

/** How a hint to fetch a request's blocks from a source ends, block by block. Its carrier must not notice. */
async function ends(
	stage: Stage,
	from: ManagerProcess,
	to: ManagerProcess,
	request: EngineRequest,
	mode: NonNullable<RouteEntry["mode"]> = "copy",
): Promise<Record<string, number>> {
	const hashes = await from.call("hashes", request);
	const before = (await to.call("outcomes", 0)).length;
	const hint = await compose(await reportsOf([from, to]), to, {
		...{ from, hashes, mode },
	});
	const carrier = { ...C, ...carrying(hint), id: `carrier-${carriers++}` };
	const { output } = await to.call("run", carrier);
	expect(output).toBe(await stage.outputWithoutHints(C));
	const all = await to.call("outcomes", before + hashes.length);
	return tally(all.slice(before));
}

/** Waits until the intake of a manager has counted this. */
async function expectIntake(
	manager: ManagerProcess,
	counts: Readonly<
		Partial<Record<"storedBlocks" | "removedBlocks" | "gaps", number>>
	>,
): Promise<void> {
	await expect
		.poll(() => manager.call("intake"), { timeout: 15_000, interval: 20 })
		.toMatchObject(counts);
}

/** Waits until a manager has published this many removals of blocks. */
async function expectRemovals(
	manager: ManagerProcess,
	blocks: number,
): Promise<void> {
	await expect
		.poll(
			async () => {
				const { events } = await manager.call("report");
				const removals = events.filter(({ removed }) => removed);
				return removals.reduce((sum, { keys }) => sum + keys.length, 0);
			},
			{ timeout: 15_000, interval: 20 },
		)
		.toBe(blocks);
}
