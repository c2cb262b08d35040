/** One simulated process: an instance with its framework, its clock, and an owner that polls when it is woken. */
import type { BlockHasher } from "../../integrity/hasher.js";
import { createWired, type Kvcr } from "../../kvcr.js";
import {
	type Incarnation,
	keyText,
	type MemoryRegion,
} from "../../ports/index.js";
import type { ControlMessage } from "../../protocol/index.js";
import { type Identity, type Wiring, wire } from "../../wiring.js";
import type { ManualClock } from "../manual-clock.js";
import type { MemoryFabric } from "../memory-fabric.js";
import type { MemoryNetwork } from "../memory-network.js";
import {
	type AdapterFault,
	type BlockUniverse,
	POOL_BYTES,
	SimAdapter,
} from "./blocks.js";
import { CallBook } from "./call-book.js";
import type { FaultDice } from "./faults.js";
import { defectLogger, faultyPolicy } from "./foreign-code.js";
import { SimFramework } from "./framework.js";
import { InventoryCheck } from "./inventory-check.js";
import { MemoryBook, type Watched } from "./memory-book.js";
import type { MemoryOracle } from "./memory-oracle.js";
import { hashText } from "./random.js";
import type { Setup } from "./scenario.js";
import { SimAgent } from "./sim-agent.js";
import { SimChannel } from "./sim-channel.js";
import { SimClock } from "./sim-clock.js";
import type { Verdict } from "./violation.js";
import { watchParts } from "./watch-parts.js";

/** Deadlines of every simulated instance, in milliseconds. */
export const OPERATION_MS = 300;
export const ABANDON_MS = 1200;
export const CLOSE_MS = 300;
/** A route unused for this long goes. */
export const IDLE_MS = 15_000;

/** Channel names of a peer. */
export const nameOf = (peer: number): string => `peer${peer}`;
export const aliasOf = (peer: number): string => `alias${peer}`;

/** What all instances of a run share. */
export interface Surroundings {
	readonly clock: ManualClock;
	readonly network: MemoryNetwork;
	readonly fabric: MemoryFabric;
	readonly universe: BlockUniverse;
	readonly dice: FaultDice;
	readonly oracle: MemoryOracle;
	readonly verdict: Verdict;
	readonly setup: Setup;
	/** Present: blocks are checked against their checksums. */
	readonly hasher: BlockHasher | undefined;
	readonly log: (line: string) => void;
	/** The instance of an agent, running or not. */
	readonly byAgent: (incarnationKey: string) => SimInstance | undefined;
	/** A message goes out: strangers may react to it. */
	readonly sending: (
		from: SimInstance,
		message: ControlMessage,
		endpoint: string,
	) => void;
}

export class SimInstance implements Watched {
	readonly name: string;
	readonly clock: SimClock;
	readonly agent: SimAgent;
	readonly channel: SimChannel;
	readonly adapter: SimAdapter;
	readonly inventory: InventoryCheck;
	readonly book = new MemoryBook();
	readonly calls: CallBook;
	readonly pools = new Map<string, MemoryRegion>();
	/** `closing`: no calls any more; `gone`: the process has ended. */
	state: "up" | "closing" | "gone" = "up";
	/** The owner does not poll before this time. */
	silentUntil = 0;
	#kvcr: Kvcr | undefined;
	#parts: Wiring | undefined;
	#framework: SimFramework | undefined;
	#pollArmed = false;
	readonly #around: Surroundings;

	private constructor(
		around: Surroundings,
		peer: number,
		generation: number,
		agentName: string,
	) {
		const { clock, network, fabric, universe, dice, oracle, verdict, setup } =
			around;
		this.#around = around;
		this.name = `p${peer}.${generation}`;
		this.clock = new SimClock(clock);
		const log = (line: string) => around.log(`${this.name} ${line}`);
		const inner = fabric.agent(agentName, {
			mode: "manual",
			incomingWakes: setup.incomingWakes,
		});
		this.agent = new SimAgent(inner, `p${peer}`, dice, clock, this.clock, {
			posted: (write, request, key, addresses) => {
				const to = around.byAgent(key);
				log(`writes ${request.pairs.length} pieces to ${to?.name}`);
				return oracle.posted(this, to, write, request, addresses);
			},
			landed: (live) => oracle.landed(live),
			log,
		});
		const aliases = [aliasOf(peer)];
		this.channel = new SimChannel(
			network.channel(nameOf(peer), { aliases }),
			network,
			dice,
			this.clock,
			{
				sending: (message, endpoint) => around.sending(this, message, endpoint),
				log,
			},
		);
		const scope = `adapter p${peer}`;
		this.adapter = new SimAdapter(universe, (method): AdapterFault => {
			if (!dice.roll("adapterFail", scope)) return undefined;
			return method === "decode"
				? "throw"
				: dice.random(scope).pick(["throw", "promise", "wrong_key"] as const);
		});
		this.inventory = new InventoryCheck(this.name, verdict.broken);
		this.calls = new CallBook(
			this,
			(endpoint) =>
				endpoint === network.endpoint(nameOf(peer)) ||
				endpoint === network.endpoint(aliasOf(peer)),
			oracle,
			verdict,
			{ operationMs: OPERATION_MS, abandonMs: ABANDON_MS },
		);
	}

	/** Starts a process. */
	static async start(
		around: Surroundings,
		peer: number,
		generation: number,
		agentName: string,
		register: (instance: SimInstance) => void,
	): Promise<SimInstance> {
		const instance = new SimInstance(around, peer, generation, agentName);
		register(instance);
		await instance.#create(peer, generation);
		return instance;
	}

	get kvcr(): Kvcr {
		return this.#kvcr as Kvcr;
	}

	get parts(): Wiring {
		return this.#parts as Wiring;
	}

	get framework(): SimFramework {
		return this.#framework as SimFramework;
	}

	get alive(): boolean {
		return this.state !== "gone" && this.#kvcr !== undefined;
	}

	/** Whether the owner can make calls now. */
	get callable(): boolean {
		return (
			this.state === "up" && this.#kvcr !== undefined && !this.clock.stopped
		);
	}

	/** Runs one call of the owner. What it throws is a defect: arguments are right, and the instance is open. */
	call<T>(name: string, work: (kvcr: Kvcr) => T): T | undefined {
		if (!this.callable) return undefined;
		try {
			return work(this.kvcr);
		} catch (error) {
			const text = error instanceof Error ? error.stack : String(error);
			this.#around.verdict.broken("call", `${this.name} ${name}: ${text}`);
			return undefined;
		} finally {
			this.wake();
		}
	}

	/** The owner comes to poll, soon. */
	wake(): void {
		if (this.#pollArmed || this.state === "gone") return;
		this.#pollArmed = true;
		const { clock, dice, setup } = this.#around;
		const wait = Math.max(0, this.silentUntil - clock.now());
		const ms =
			setup.pollMs > 0
				? dice.random(`poll ${this.name}`).below(setup.pollMs)
				: 0;
		// Not a timer of the instance: its own are counted.
		clock.schedule(wait + ms, () =>
			this.clock.gate(() => {
				this.#pollArmed = false;
				this.poll();
			}),
		);
	}

	/** Polls now. */
	poll(): void {
		if (this.state === "gone" || this.#kvcr === undefined) return;
		if (this.#around.clock.now() < this.silentUntil) {
			this.wake();
			return;
		}
		try {
			const results = this.#kvcr.pollCompleted();
			for (const { kind, entries } of results)
				this.#around.log(
					`${this.name} ${kind} ended: ${entries.map(({ status, reason }) => reason ?? status).join(" ")}`,
				);
			this.calls.completed(results);
		} catch (error) {
			const text = error instanceof Error ? error.stack : String(error);
			this.#around.verdict.broken("poll", `${this.name}: ${text}`);
		}
	}

	/** The process dies without a word. */
	crash(): void {
		this.state = "gone";
		this.clock.kill();
		this.agent.crash();
		void this.channel.close();
	}

	async #create(peer: number, generation: number): Promise<void> {
		const { clock, universe, dice, oracle, verdict, setup } = this.#around;
		const { agent, channel, adapter } = this;
		const framework = await SimFramework.create(agent, {
			universe,
			dice,
			world: clock,
			clock: this.clock,
			name: `p${peer}`,
			mayPin: (text) => {
				if (!this.book.pinnable.has(text))
					verdict.broken(
						"framework policy",
						`${this.name} asks for a pin on a key that nobody may get from framework memory`,
					);
			},
			complain: verdict.broken,
		});
		this.#framework = framework;
		this.#kvcr = await createWired(
			{
				agent,
				channel,
				adapter,
				pools: Object.entries(POOL_BYTES).map(([name, slotBytes]) => ({
					name,
					slotBytes,
					slotCount: setup.bare === peer ? 0 : (setup.slots[name] as number),
				})),
				frameworkRegions: framework.regions,
				pins: framework,
				policy: faultyPolicy(setup, dice, `policy p${peer}`),
				inventorySink: (event) => {
					this.inventory.event(event);
					for (const key of event.keys) {
						const block = universe.find(keyText(key));
						if (block === undefined) continue;
						if (event.removed) adapter.forget(block);
						else adapter.learn(block);
					}
					if (dice.roll("sinkThrow", `sink p${peer}`))
						throw new Error("simulated: sink");
				},
				inventoryReportIntervalMs: setup.inventoryMs,
				capacityListener: () => {},
				capacityLowWatermarkPercent: setup.watermark,
				operationTimeoutMs: OPERATION_MS,
				abandonTimeoutMs: ABANDON_MS,
				metadataRetryIntervalMs: 40,
				closeTimeoutMs: CLOSE_MS,
				eagerConnect: setup.eagerConnect,
				limits: {
					idlePeerMs: IDLE_MS,
					maxWritesPerPeer: setup.maxWritesPerPeer,
					maxPeers: setup.maxPeers,
				},
				onTransferReport: (report) => this.calls.report(report),
				logger: defectLogger(this.name, verdict),
				clock: this.clock,
			},
			(options, settings, pools) => {
				const parts = wire(
					options,
					settings,
					pools,
					this.#identity(generation),
					this.#around.hasher,
				);
				this.#parts = parts;
				for (const { name, region } of pools) this.pools.set(name, region);
				watchParts(this, parts, verdict, this.#around.log);
				return parts;
			},
		);
		oracle.watch(this);
		this.#kvcr.onWake(() => this.wake());
	}

	/** As in life, a process that starts later has higher handles; those that start together have the same. */
	#identity(generation: number): Identity {
		const started = BigInt(Math.floor(this.clock.now())) * 1_000_000n;
		const hex = (salt: number) =>
			hashText(this.name, salt).toString(16).padStart(8, "0");
		return {
			incarnation: [1, 2, 3, 4].map(hex).join("") as Incarnation,
			firstHandle:
				1_700_000_000_000_000_000n + started + BigInt(generation) * 50_000n,
		};
	}
}
