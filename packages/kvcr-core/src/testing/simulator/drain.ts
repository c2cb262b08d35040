/** The end of a run: faults stop, everything comes to rest, and nothing may be left of it. Then all must still work. */
import type { SimBlock } from "./blocks.js";
import { IDLE_MS, type SimInstance } from "./instance.js";
import { closeInstance } from "./process-steps.js";
import type { Simulation } from "./simulation.js";
import { deposit, fetch, hint, requestName } from "./steps.js";
import { REQUESTS } from "./workload.js";

/** Longest until everything is at rest, in milliseconds: a quarantined pull asks its source every half minute. */
const REST_MS = 90_000;

/** Brings a run to its end. */
export async function drain(sim: Simulation): Promise<void> {
	sim.events.add("drain");
	sim.dice.calm = true;
	sim.network.heal();
	sim.fabric.heal();
	for (const instance of living(sim)) {
		instance.silentUntil = 0;
		instance.clock.resume();
	}
	// Every write ends by itself within this time, every process is back, and every lock is released.
	await sim.advance(6_000);
	for (const instance of living(sim)) letGo(sim, instance);
	await rest(sim);
	if (broken(sim)) return;
	for (const instance of living(sim)) checkNothingLeft(sim, instance);
	if (broken(sim)) return;
	await checkThatItWorks(sim);
	if (broken(sim)) return;
	await sim.advance(IDLE_MS * 2 + 5_000);
	if (broken(sim)) return;
	for (const instance of living(sim)) checkIdle(sim, instance);
	if (broken(sim)) return;
	for (const instance of living(sim)) sim.goOn(closeInstance(sim, instance));
	await sim.advance(5_000);
	if (broken(sim)) return;
	if (sim.pending.size > 0)
		sim.verdict.broken("close", "an instance does not come to its end");
	if (sim.clock.pending > 0)
		sim.verdict.broken("drain", `${sim.clock.pending} timers are left`);
}

function living(sim: Simulation): SimInstance[] {
	return sim.instances.filter((instance) => instance.state === "up");
}

function broken(sim: Simulation): boolean {
	return sim.verdict.first !== undefined;
}

/** The owner gives back all it holds. */
function letGo(sim: Simulation, instance: SimInstance): void {
	const handles = instance.calls.takeHeld(0, Number.MAX_SAFE_INTEGER);
	const results = instance.call("release", (kvcr) => kvcr.release(handles));
	instance.calls.released(results ?? [], true);
	for (let request = 0; request < REQUESTS; request += 1)
		instance.call("discardHint", (kvcr) =>
			kvcr.discardHint(requestName(request)),
		);
	sim.check();
}

async function rest(sim: Simulation): Promise<void> {
	for (let waited = 0; waited < REST_MS; waited += 1_000) {
		if (living(sim).every((instance) => leftovers(instance).length === 0)) {
			// Batches of the inventory may be on their way.
			await sim.advance(100);
			return;
		}
		await sim.advance(1_000);
		if (broken(sim)) return;
		// What completed meanwhile may have come with new claims.
		for (const instance of living(sim)) letGo(sim, instance);
	}
}

/** What is not at rest, in words. */
function leftovers(instance: SimInstance): string[] {
	const { kvcr, parts, calls, framework } = instance;
	const stats = kvcr.stats();
	const cache = stats.cache;
	const figures: Record<string, number | undefined> = {
		"open operations": stats.operations.open,
		"uncollected operations": stats.operations.uncollected,
		"operations without completion": calls.open.size,
		pulls: parts.pulls.size,
		writes: stats.transfers.writes,
		"pins held": stats.pins.held,
		"pins pending": stats.pins.pending,
		"pins releasing": stats.pins.releasing,
		"pins of the framework": framework.open.pins,
		advice: stats.advice,
		"hashes of hints": stats.hintsPending,
		"hints without outcome": calls.hints.size,
		claims: cache?.claims,
		"release handles": cache?.handles,
		"waiting admissions": cache?.waiting,
		filling: cache?.filling,
		discarding: cache?.discarding,
		retiring: cache?.retiring,
		fills: parts.fetch?.fills.size,
		"resolutions under way": parts.resolver.inFlight,
		"endpoints resolving": parts.resolver.endpoints,
		copies: parts.copier.size,
		checksums: parts.integrity?.pending,
		"owner tasks": parts.owner.size,
		"uncertain reports": calls.uncertain,
		"destinations at risk": framework.elements.filter(
			({ use }) => use === "deliver",
		).length,
		"elements read": framework.elements.filter(
			({ reads, pins }) => reads > 0 || pins > 0,
		).length,
	};
	return Object.entries(figures)
		.filter(([, count]) => count !== undefined && count > 0)
		.map(([what, count]) => `${what}: ${count}`);
}

function checkNothingLeft(sim: Simulation, instance: SimInstance): void {
	const left = leftovers(instance);
	if (left.length > 0)
		sim.verdict.broken("drain", `${instance.name} keeps ${left.join(", ")}`);
	sim.checkDeeply();
	instance.inventory.compare(sim.oracle.readyBlocks(instance));
}

/** Every pair of peers can still move blocks, by either kind of hint. */
async function checkThatItWorks(sim: Simulation): Promise<void> {
	for (const [from, source] of sim.peers.entries()) {
		for (const [to, target] of sim.peers.entries()) {
			if (source === undefined || target === undefined || from === to) continue;
			const { bare } = sim.scenario.setup;
			if (from === bare || to === bare) continue;
			// The first attempt may be what finds out that the peer is another process by now.
			const missing =
				(await attempt(sim, from, to)) && (await attempt(sim, from, to));
			if (broken(sim)) return;
			if (missing !== undefined)
				sim.verdict.broken(
					"recovery",
					`${target.name} gets nothing from ${source.name} any more (${missing})`,
				);
		}
	}
	for (const instance of living(sim)) checkNothingLeft(sim, instance);
}

/** Moves two fresh blocks. Says what did not arrive, if anything. */
async function attempt(
	sim: Simulation,
	from: number,
	to: number,
): Promise<string | undefined> {
	const source = sim.peers[from] as SimInstance;
	const target = sim.peers[to] as SimInstance;
	const blocks = [0, 1].map((which) =>
		sim.universe.at((sim.scenario.setup.hashes + from * 2 + which) * 2),
	);
	deposit(sim, source, blocks, { noEvict: false, raw: true });
	await sim.advance(60);
	const arrivals = (block: SimBlock) => target.book.ready.get(block.text) ?? 0;
	const before = blocks.map(arrivals);
	for (const [index, { id }] of blocks.entries()) {
		const action = {
			source: from,
			alias: false,
			blocks: [id],
			mode: "copy" as const,
			independent: index === 1,
			allowFramework: false,
		};
		hint(sim, target, [action], 0);
	}
	fetch(sim, target, blocks.slice(0, 1), 0);
	await sim.advance(250);
	letGo(sim, target);
	const missing = blocks.findIndex(
		(block, index) => arrivals(block) === before[index],
	);
	// A block that was there already proves nothing, and cannot be: it is dropped here.
	for (const block of blocks) {
		const residency = target.parts.cache?.get(block.text);
		if (residency !== undefined) target.parts.cache?.drop(residency);
	}
	await sim.advance(100);
	return missing < 0 ? undefined : missing === 0 ? "fetch" : "hint";
}

/** Without anything to do, an instance has no timer, expects no traffic, and keeps no mapping of a peer. */
function checkIdle(sim: Simulation, instance: SimInstance): void {
	const { clock, agent, parts, name } = instance;
	if (clock.pending > 0)
		sim.verdict.broken("idle", `${name} has ${clock.pending} timers`);
	if (agent.expectations > 0)
		sim.verdict.broken("idle", `${name} expects traffic`);
	if (parts.routes.size > 0)
		sim.verdict.broken("idle", `${name} keeps ${parts.routes.size} routes`);
}
