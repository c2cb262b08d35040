/** An in-process fabric of scripted transfer agents: one-sided writes between plain buffers, under a test's control. */
import type { Clock } from "../ports/clock.js";
import { type Scheduler, schedulerFor } from "./scheduler.js";
import {
	type ScriptedAgentOptions,
	ScriptedTransferAgent,
} from "./scripted-agent.js";

/** What to do with traffic between two agents that are cut off from each other. */
export type CutEffect = "fail" | "stall";

/** Options of a {@link MemoryFabric}. */
export interface MemoryFabricOptions {
	/** Everything that happens later runs on this clock; default: on the event loop. */
	readonly clock?: Clock;
	/** Defaults of every agent of this fabric. */
	readonly agents?: ScriptedAgentOptions;
}

/** Joins {@link ScriptedTransferAgent}s of one process. */
export class MemoryFabric {
	readonly #later: Scheduler;
	readonly #defaults: ScriptedAgentOptions;
	readonly #agents = new Map<string, ScriptedTransferAgent>();
	readonly #cuts = new Map<string, CutEffect>();
	#nextIncarnation = 1;
	#nextAddr = 0x1_0000_0000_0000n;

	/** Without options: every write succeeds in its turn. */
	constructor(options: MemoryFabricOptions = {}) {
		this.#later = schedulerFor(options.clock);
		this.#defaults = options.agents ?? {};
	}

	/**
	 * A new agent. Reusing the name of one that crashed or closed models a restart: the new agent has another incarnation, and
	 * writes through the old one's metadata fail.
	 */
	agent(
		name: string,
		options: ScriptedAgentOptions = {},
	): ScriptedTransferAgent {
		const agent = new ScriptedTransferAgent(
			name,
			this.#nextIncarnation++,
			this,
			this.#later,
			{ ...this.#defaults, ...options },
		);
		this.#agents.set(agent.incarnationKey, agent);
		return agent;
	}

	/** Makes writes and notifications between two agents fail, or hang until `heal`, whichever incarnation they are. */
	cut(a: string, b: string, effect: CutEffect = "fail"): void {
		this.#cuts.set(link(a, b), effect);
	}

	/** Ends one cut, or all of them. Writes that hang stay in flight until the test ends them. */
	heal(a?: string, b?: string): void {
		if (a === undefined || b === undefined) this.#cuts.clear();
		else this.#cuts.delete(link(a, b));
	}

	/** For agents: the running agent behind a name and incarnation. */
	find(incarnationKey: string): ScriptedTransferAgent | undefined {
		return this.#agents.get(incarnationKey);
	}

	/** For agents: how the link between two names is cut, if it is. */
	cutBetween(a: string, b: string): CutEffect | undefined {
		return this.#cuts.get(link(a, b));
	}

	/** For agents: an agent crashed or closed. */
	forget(agent: ScriptedTransferAgent): void {
		this.#agents.delete(agent.incarnationKey);
	}

	/** For agents: an address range that was never used before. */
	takeAddress(bytes: number): bigint {
		const addr = this.#nextAddr;
		this.#nextAddr += (BigInt(bytes) + 0x1fffn) & ~0xfffn;
		return addr;
	}
}

function link(a: string, b: string): string {
	return a < b ? `${a}\n${b}` : `${b}\n${a}`;
}
