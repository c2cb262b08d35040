/** Steps that happen to processes and links instead of being calls: pauses, cuts, ends and new beginnings. */
import { NotQuiescentError } from "../../ports/index.js";
import { ABANDON_MS, type SimInstance } from "./instance.js";
import type { Step } from "./scenario.js";
import type { Simulation } from "./simulation.js";

type StepOf<Kind extends Step["kind"]> = Extract<Step, { kind: Kind }>;

/** The owner holds the state lock for a while. */
export function lock(sim: Simulation, instance: SimInstance, ms: number): void {
	const hold = instance.call("lockState", (kvcr) => kvcr.lockState());
	if (hold === undefined) return;
	instance.calls.hinder(sim.clock.now(), ms);
	sim.later(ms, () => instance.clock.gate(() => hold.release()));
}

/** The process does not run for a while. */
export function stall(
	sim: Simulation,
	instance: SimInstance,
	ms: number,
): void {
	sim.events.add(`${instance.name} stalls for ${ms}`);
	instance.clock.stop();
	// What was refused because of the stall takes its time, too.
	instance.calls.hinder(sim.clock.now(), ms + ABANDON_MS);
	sim.later(ms, () => instance.clock.resume());
}

/** Two peers cannot reach each other for a while. */
export function partition(sim: Simulation, step: StepOf<"partition">): void {
	const a = step.a % sim.peers.length;
	const b = step.b % sim.peers.length;
	if (a === b) return;
	sim.events.add(`p${a} and p${b} are cut off (${step.effect})`);
	const names: [string, string] = [`peer${a}`, `peer${b}`];
	const agents: [string, string] = [
		sim.peers[a]?.agent.name ?? `agent${a}`,
		sim.peers[b]?.agent.name ?? `agent${b}`,
	];
	sim.network.partition(...names);
	if (step.effect !== "control") sim.fabric.cut(...agents, step.effect);
	sim.later(step.ms, () => {
		sim.network.heal(...names);
		sim.fabric.heal(...agents);
	});
}

/** Closes an instance; another comes in its place. */
export function close(
	sim: Simulation,
	instance: SimInstance,
	step: StepOf<"crash" | "close">,
): void {
	sim.events.add(`${instance.name} closes`);
	sim.goOn(
		closeInstance(sim, instance).then(() => comeBack(sim, instance, step)),
	);
}

/** Closes an instance and checks what must be true afterwards. */
export async function closeInstance(
	sim: Simulation,
	instance: SimInstance,
): Promise<void> {
	const { verdict } = sim;
	const { kvcr, agent, clock, calls, name } = instance;
	instance.state = "closing";
	let proven = true;
	try {
		await kvcr.close();
	} catch (error) {
		const { code } = error as { code?: string };
		const stalled = agent.inner.writes.some(({ state }) => state === "stalled");
		proven = !(error instanceof NotQuiescentError);
		// The framework may refuse to take a pin back for longer than closing can wait.
		if (proven ? code !== "ERR_KVCR_PINS_HELD" : !stalled)
			verdict.broken(
				"close",
				`${name}: ${error instanceof Error ? error.stack : String(error)}`,
			);
	}
	calls.completed(kvcr.pollCompleted());
	// Without that proof everything stays as it was, for the sake of the memory.
	const left: Record<string, number> = {
		timers: clock.pending,
		operations: calls.open.size,
		hints: calls.hints.size,
		expectations: agent.expectations,
	};
	for (const [what, count] of Object.entries(left))
		if (proven && count > 0)
			verdict.broken("close", `${name} leaves ${count} ${what}`);
	sim.events.add(`${name} has closed`);
	instance.crash();
}

/** Starts a new process at the place of one that ended. */
export function comeBack(
	sim: Simulation,
	former: SimInstance,
	how: { readonly ms: number; readonly newAgentName: boolean },
): void {
	const peer = sim.peers.indexOf(former);
	sim.peers[peer] = undefined;
	const agentName = how.newAgentName
		? `agent${peer}-${sim.instances.length}`
		: former.agent.name;
	sim.later(how.ms, () => sim.goOn(sim.start(peer, agentName)));
}
