/** Scenarios over two manager processes: which transfer agents they run over, and how tests get managers and requests. */
import { existsSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest";
import type { AgentKind } from "../harness/commands.js";
import type { ManagerOptions } from "./commands.js";
import { BLOCK_TOKENS } from "./engine/engine.js";
import type { EngineRequest } from "./engine/requests.js";
import { ManagerProcess } from "./manager-process.js";

/** How a scenario gets what it needs. */
export interface Stage {
	/** Starts a manager; it is ended after the test at the latest. */
	manager(
		name: string,
		options?: Partial<ManagerOptions>,
	): Promise<ManagerProcess>;
	/** Output of a request on an engine that never saw a hint. */
	outputWithoutHints(
		request: EngineRequest,
		options?: Pick<ManagerOptions, "hashBytes" | "groups">,
	): Promise<string>;
}

/**
 * Describes scenarios over ZeroMQ and NIXL. Where NIXL is missing they run over the portable agent, next to a visible skip; in
 * CI that is a failure.
 */
export function overNixl(
	title: string,
	scenarios: (stage: Stage) => void,
): void {
	describeStage(`${title} [nixl, zmq]`, "nixl", scenarios);
	if (missingReason("nixl") !== undefined)
		describeStage(`${title} [portable, zmq]`, "portable", scenarios);
}

function missingReason(agent: AgentKind): string | undefined {
	return agent === "nixl" && !existsSync(process.env.KVCR_NIXL_LIBRARY ?? "")
		? "NIXL's library is not here (the bootstrap says why)"
		: undefined;
}

function describeStage(
	title: string,
	agent: AgentKind,
	scenarios: (stage: Stage) => void,
): void {
	const missing = missingReason(agent);
	const started: ManagerProcess[] = [];
	const alone = new Map<string, ManagerProcess>();
	let count = 0;
	const stage: Stage = {
		async manager(name, options = {}) {
			const manager = await ManagerProcess.start({ name, agent, ...options });
			started.push(manager);
			return manager;
		},
		async outputWithoutHints(request, options = {}) {
			const { kvTransferParams: _, kvHints: __, ...plain } = request;
			const kind = JSON.stringify(options);
			// It keeps nothing below its primary tier: every block is computed.
			const manager =
				alone.get(kind) ??
				(await ManagerProcess.start({
					...{ name: "alone", agent, managedBlocks: 0, primaryBlocks: 64 },
					...options,
				}));
			alone.set(kind, manager);
			await manager.call("reset");
			const id = `alone-${count++}`;
			const report = await manager.call("run", { ...plain, id });
			expect(report.blocks).toMatchObject({ cached: 0, loaded: 0 });
			return report.output;
		},
	};
	if (missing !== undefined && process.env.CI !== "true") {
		describe.skip(`${title}: ${missing}`, () => scenarios(stage));
		return;
	}
	describe(title, () => {
		beforeAll(() => {
			if (missing !== undefined) throw new Error(missing);
		});
		afterEach(async () => {
			await Promise.all(started.splice(0).map((manager) => manager.kill()));
		});
		afterAll(async () => {
			await Promise.all([...alone.values()].map((manager) => manager.kill()));
		});
		scenarios(stage);
	});
}

/** A prompt of this many full blocks and a few tokens more; other seeds share no block. */
export function prompt(seed: number, blocks: number): number[] {
	return Array.from(
		{ length: blocks * BLOCK_TOKENS + 3 },
		(_, i) => (seed * 7919 + i * 31 + 5) % 128_000,
	);
}

/** Waits until nothing is open and nothing held: no job, pin, claim, advice or transfer, at engine, tier and instance. */
export async function expectDrained(
	...managers: readonly ManagerProcess[]
): Promise<void> {
	for (const manager of managers) {
		await expect
			.poll(
				async () => {
					const { tier, engine, held, strayResults } =
						await manager.call("stats");
					const { cache, operations, transfers, pins, advice, hintsPending } =
						tier.kvcr;
					return {
						...{ jobs: tier.jobs, tierPins: tier.pins, engine, held },
						...{ strayResults, transfers, pins, advice, hintsPending },
						claims: cache?.claims ?? 0,
						handles: cache?.handles ?? 0,
						open: operations.open,
					};
				},
				{ timeout: 15_000, interval: 50 },
			)
			.toEqual({
				jobs: { running: 0, withheld: 0 },
				tierPins: { pending: 0, active: 0, failed: 0 },
				engine: { requests: 0, jobs: 0 },
				held: 0,
				strayResults: 0,
				transfers: { pulls: {}, writes: 0 },
				pins: { held: 0, pending: 0, releasing: 0 },
				advice: 0,
				hintsPending: 0,
				claims: 0,
				handles: 0,
				open: 0,
			});
	}
}

/** How often each outcome came. */
export function tally(
	outcomes: readonly { readonly outcome: string }[],
): Record<string, number> {
	const counts: Record<string, number> = {};
	for (const { outcome } of outcomes)
		counts[outcome] = (counts[outcome] ?? 0) + 1;
	return counts;
}
