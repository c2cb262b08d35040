/** Runs one scenario: steps, faults and time, then the drain, with every rule checked all along. */
import { BlockHasher } from "../../integrity/hasher.js";
import type { ControlMessage } from "../../protocol/index.js";
import { ManualClock } from "../manual-clock.js";
import { MemoryFabric } from "../memory-fabric.js";
import { MemoryNetwork } from "../memory-network.js";
import { BlockUniverse } from "./blocks.js";
import { drain } from "./drain.js";
import { EventLog } from "./event-log.js";
import { FaultDice } from "./faults.js";
import { aliasOf, nameOf, SimInstance, type Surroundings } from "./instance.js";
import { MemoryOracle } from "./memory-oracle.js";
import { SimRandom } from "./random.js";
import type { Scenario, Step } from "./scenario.js";
import { DISTURBANCES } from "./scenario.js";
import { perform } from "./steps.js";
import { strangerAnswers } from "./strangers.js";
import { type SimViolation, Verdict } from "./violation.js";

/** What came of a run. */
export interface RunResult {
	/** The scenario that was run. */
	readonly scenario: Scenario;
	/** The first rule that did not hold. */
	readonly violation: SimViolation | undefined;
	/** Equal for equal scenarios: it covers all that happened. */
	readonly fingerprint: string;
	/** The last lines of the log, oldest first. */
	readonly tail: readonly string[];
	/** API calls made. */
	readonly calls: number;
	/** Results of keys, and outcomes of hashes, that came out of them. */
	readonly results: number;
	/** Faults that happened, by kind. */
	readonly faults: Readonly<Record<string, number>>;
	/** Virtual milliseconds. */
	readonly elapsedMs: number;
}

/** The peers of a run and what surrounds them. */
export class Simulation {
	readonly scenario: Scenario;
	readonly clock = new ManualClock();
	readonly network: MemoryNetwork;
	readonly fabric = new MemoryFabric({ clock: this.clock });
	readonly universe: BlockUniverse;
	readonly verdict = new Verdict();
	readonly oracle: MemoryOracle;
	readonly dice: FaultDice;
	readonly events = new EventLog(() => this.clock.now());
	/** The process at each peer's place, while there is one. */
	readonly peers: (SimInstance | undefined)[] = [];
	/** Every process there ever was. */
	readonly instances: SimInstance[] = [];
	/** Work that waits for promises: closing and starting instances. */
	readonly pending = new Set<Promise<void>>();
	calls = 0;
	readonly #byAgent = new Map<string, SimInstance>();
	readonly #around: Surroundings;
	readonly #strangers: SimRandom;
	#sinceDeepCheck = 0;

	constructor(scenario: Scenario, hasher: BlockHasher | undefined) {
		this.scenario = scenario;
		const { seed, setup, rates } = scenario;
		this.network = new MemoryNetwork({
			clock: this.clock,
			latencyMs: setup.latencyMs,
		});
		this.universe = new BlockUniverse(setup.hashes + setup.peers * 2);
		this.oracle = new MemoryOracle(this.universe, this.verdict);
		this.dice = new FaultDice(seed, rates);
		this.#strangers = new SimRandom(`${seed} strangers`);
		this.#around = {
			clock: this.clock,
			network: this.network,
			fabric: this.fabric,
			universe: this.universe,
			dice: this.dice,
			oracle: this.oracle,
			verdict: this.verdict,
			setup,
			hasher,
			log: (line) => this.events.add(line),
			byAgent: (key) => this.#byAgent.get(key),
			sending: (from, message, endpoint) =>
				this.#sending(from, message, endpoint),
		};
	}

	/** Runs to the end, or to the first broken rule. */
	async run(): Promise<RunResult> {
		const { steps, setup } = this.scenario;
		for (let peer = 0; peer < setup.peers; peer += 1)
			await this.start(peer, `agent${peer}`);
		for (const { after, step } of steps) {
			await this.advance(after);
			if (this.verdict.first !== undefined) break;
			this.#perform(step);
		}
		if (this.verdict.first === undefined) await drain(this);
		return this.#result();
	}

	/** Starts a process at a peer's place. */
	async start(peer: number, agentName: string): Promise<void> {
		const generation = this.instances.filter(({ name }) =>
			name.startsWith(`p${peer}.`),
		).length;
		this.events.add(`p${peer}.${generation} starts as ${agentName}`);
		const instance = await SimInstance.start(
			this.#around,
			peer,
			generation,
			agentName,
			(made) => {
				this.#byAgent.set(made.agent.inner.incarnationKey, made);
				this.instances.push(made);
			},
		);
		this.peers[peer] = instance;
	}

	/** The endpoint of a peer, under its own or its second name. */
	endpoint(peer: number, alias: boolean): string {
		return this.network.endpoint(alias ? aliasOf(peer) : nameOf(peer));
	}

	/** Something happens later, whatever becomes of processes meanwhile. */
	later(ms: number, task: () => void): void {
		this.clock.schedule(ms, task);
	}

	/** Does work that goes on across promises; the simulation waits for it before it ends. */
	goOn(work: Promise<void>): void {
		const tracked: Promise<void> = work
			.catch((error: unknown) =>
				this.verdict.broken(
					"simulation",
					error instanceof Error ? (error.stack ?? "") : String(error),
				),
			)
			.then(() => void this.pending.delete(tracked));
		this.pending.add(tracked);
	}

	/** Lets time pass, and checks the rules after everything that happens. */
	async advance(ms: number): Promise<void> {
		const end = this.clock.now() + ms;
		for (;;) {
			if (this.pending.size > 0) await settlePromises();
			const { nextAt } = this.clock;
			if (nextAt === undefined || nextAt > end) break;
			this.clock.runNext();
			this.check();
			if (this.verdict.first !== undefined) return;
		}
		if (this.clock.now() < end) this.clock.advance(end - this.clock.now());
	}

	/** Checks what is cheap to check; every now and then, everything. */
	check(): void {
		this.oracle.check();
		this.#sinceDeepCheck += 1;
		if (this.#sinceDeepCheck >= 40) this.checkDeeply();
	}

	/** Checks the bytes of every block, every slot, every claim, and every deadline. */
	checkDeeply(): void {
		this.#sinceDeepCheck = 0;
		const now = this.clock.now();
		for (const instance of this.instances) {
			if (!instance.alive) continue;
			this.oracle.checkContent(instance);
			instance.calls.checkHeld();
			if (instance.callable && now >= instance.silentUntil)
				instance.calls.checkDeadlines(now);
		}
	}

	#perform(step: Step): void {
		if (DISTURBANCES.has(step.kind)) this.dice.count(step.kind);
		perform(this, step);
		this.check();
	}

	#sending(from: SimInstance, message: ControlMessage, endpoint: string): void {
		const peer = this.#peerAt(endpoint);
		if (message.type === "start_write") {
			this.oracle.asked(from, message, endpoint);
			if (message.allowFramework)
				for (const instance of this.instances)
					if (instance.name.startsWith(`p${peer}.`))
						for (const key of message.keys)
							instance.book.pinnable.add(Buffer.from(key).toString("latin1"));
		}
		if (message.type === "write_refused")
			this.#checkRefusal(from, message, peer);
		const strangers = this.peers.filter(
			(one, at): one is SimInstance =>
				one !== undefined &&
				one.state === "up" &&
				one !== from &&
				at !== peer &&
				one.agent.name !== this.peers[peer ?? -1]?.agent.name,
		);
		if (strangers.length === 0) return;
		strangerAnswers(
			from,
			message,
			this.#strangers.pick(strangers),
			this.dice,
			(ms, task) => this.later(ms, task),
			(line) => this.events.add(line),
		);
	}

	/** `write_refused` says: never submitted. */
	#checkRefusal(
		from: SimInstance,
		message: Extract<ControlMessage, { type: "write_refused" }>,
		peer: number | undefined,
	): void {
		for (const instance of this.instances) {
			if (!instance.name.startsWith(`p${peer}.`) || !instance.alive) continue;
			const ask = instance.book.asks.get(message.opHandle);
			for (const live of ask?.writes ?? [])
				if (live.from === from && (live.done || live.write.state !== "ended"))
					this.verdict.broken(
						"refusal",
						`${from.name} refuses what it has ${live.done ? "written" : "submitted"} for ${instance.name}`,
					);
		}
	}

	#peerAt(endpoint: string): number | undefined {
		for (let peer = 0; peer < this.scenario.setup.peers; peer += 1)
			if (
				endpoint === this.endpoint(peer, false) ||
				endpoint === this.endpoint(peer, true)
			)
				return peer;
		return undefined;
	}

	#result(): RunResult {
		return {
			scenario: this.scenario,
			violation: this.verdict.first,
			fingerprint: this.events.fingerprint,
			tail: this.events.tail,
			calls: this.calls,
			results: this.instances.reduce(
				(sum, instance) => sum + instance.calls.results,
				0,
			),
			faults: { ...this.dice.counts },
			elapsedMs: this.clock.now(),
		};
	}
}

/** Lets promise callbacks run, and those they make ready, without the event loop coming round. */
export async function settlePromises(): Promise<void> {
	for (let i = 0; i < 24; i += 1) await Promise.resolve();
}

/** Runs one scenario. */
export async function simulate(scenario: Scenario): Promise<RunResult> {
	// Loaded before the world begins: it takes real time.
	hasher ??= await BlockHasher.load();
	const checks = scenario.setup.integrity ? hasher : undefined;
	return new Simulation(scenario, checks).run();
}
let hasher: BlockHasher | undefined;
