/** What a run is: its peers, its faults, and the list of its steps. All of it follows from the seed. */
import { drawRates, type FaultRates } from "./faults.js";
import { SimRandom } from "./random.js";
import { Workload } from "./workload.js";

/** One thing an owner does, or that happens to a process. Names of things are numbers, taken modulo what there is. */
export type Step =
	| {
			/** Copies blocks into managed memory. */
			readonly kind: "deposit";
			/** The peer that does it. */
			readonly peer: number;
			/** Blocks to copy, each once. */
			readonly blocks: readonly number[];
			/** Every success comes with a release handle. */
			readonly noEvict: boolean;
			/** Straight from bytes instead of from registered framework memory. */
			readonly raw: boolean;
	  }
	| {
			/** Submits one envelope. */
			readonly kind: "hint";
			/** The peer that gets it. */
			readonly peer: number;
			/** Request that carries it; absent: none does. */
			readonly request: number | undefined;
			/** What it says; at least one action. */
			readonly actions: readonly HintAction[];
	  }
	| {
			/** Ends the advice of a request. */
			readonly kind: "discard";
			/** The peer that does it. */
			readonly peer: number;
			/** The request whose advice ends. */
			readonly request: number;
	  }
	| {
			/** Fetch: makes blocks resident. Query: asks what is known about them. */
			readonly kind: "fetch" | "query";
			/** The peer that does it. */
			readonly peer: number;
			/** Blocks asked for. */
			readonly blocks: readonly number[];
			/** Request whose advice applies. */
			readonly request: number;
	  }
	| {
			/** Copies blocks into fresh framework memory. */
			readonly kind: "deliver";
			/** The peer that does it. */
			readonly peer: number;
			/** Blocks asked for. */
			readonly blocks: readonly number[];
			/** Request whose advice applies. */
			readonly request: number;
			/** Only the last label of layouts with different labels. */
			readonly subset: boolean;
	  }
	| {
			/** Gives claims back. */
			readonly kind: "release";
			/** The peer that does it. */
			readonly peer: number;
			/** Position among the release handles it holds, of the first to give back. */
			readonly pick: number;
			/** How many handles, at most. */
			readonly count: number;
			/** A handle that was given back before is passed once more. */
			readonly twice: boolean;
	  }
	| {
			/** Gives up an operation, or one key of it. */
			readonly kind: "abort";
			/** The peer that does it. */
			readonly peer: number;
			/** Position of the operation among its open ones. */
			readonly pick: number;
			/** Position of the one key to give up; absent: all of them. */
			readonly only: number | undefined;
	  }
	| {
			/**
			 * Store, drop: a block comes to framework memory, or leaves it unless it is pinned. Rebind, learn: the key adapter
			 * changes what a block's hash stands for, or gets to know it.
			 */
			readonly kind: "store" | "drop" | "rebind" | "learn";
			/** The peer it happens at. */
			readonly peer: number;
			/** The block concerned. */
			readonly block: number;
	  }
	| {
			/** Lock: the state lock is held. Silence: the owner does not poll. Stall: the process does not run. */
			readonly kind: "lock" | "silence" | "stall";
			/** The peer it happens to. */
			readonly peer: number;
			/** How long, in milliseconds. */
			readonly ms: number;
	  }
	| {
			/** Crash: the process is gone at once. Close: the instance is closed in order. */
			readonly kind: "crash" | "close";
			/** The peer it happens to. */
			readonly peer: number;
			/** Until it is there again, under the same name and endpoint. */
			readonly ms: number;
			/** Its transfer agent has another name when it is back. */
			readonly newAgentName: boolean;
	  }
	| {
			/** Two peers cannot reach each other. */
			readonly kind: "partition";
			/** The one peer; when it equals the other, nothing happens. */
			readonly a: number;
			/** The other. */
			readonly b: number;
			/** How long, in milliseconds. */
			readonly ms: number;
			/** What the cut does to writes; `control` cuts control messages only. */
			readonly effect: "control" | "fail" | "stall";
	  };

/** One action of a hint. */
export interface HintAction {
	/** Position of the peer named as source. */
	readonly source: number;
	/** Reaches the source by its second name. */
	readonly alias: boolean;
	/** Blocks it names, by their hashes. */
	readonly blocks: readonly number[];
	/** Whether the source keeps its copy. */
	readonly mode: "copy" | "move";
	/** Scope: true places blocks without a call; false advises the calls of the request. */
	readonly independent: boolean;
	/** Whether the source may serve from framework memory. */
	readonly allowFramework: boolean;
}

/** A step and the time that passes before it, in milliseconds. */
export interface TimedStep {
	/** Virtual milliseconds between the step before and this one. */
	readonly after: number;
	/** What is done then. */
	readonly step: Step;
}

/** How the instances of a run are set up. */
export interface Setup {
	/** Instances. */
	readonly peers: number;
	/** Router hashes the steps choose from; two blocks share each. */
	readonly hashes: number;
	/** Slots by pool. */
	readonly slots: Readonly<Record<string, number>>;
	/** Cache policy of every instance. */
	readonly policy: "lru" | "fifo" | "frequency";
	/** What the policy answers when slots are short: wait for capacity, or fail the keys. */
	readonly recovery: "wait" | "fail";
	/** Interval of inventory reports in milliseconds; 0 reports at once. */
	readonly inventoryMs: number;
	/** Low watermark of managed memory, in percent of the slots. */
	readonly watermark: number;
	/** Milliseconds between a wake-up and the poll it causes, at most. */
	readonly pollMs: number;
	/** Time of every control message on its way, in milliseconds. */
	readonly latencyMs: number;
	/** Whether notifications always wake the instance they reach, or only while it expects some. */
	readonly incomingWakes: "always" | "expected";
	/** Whether an instance introduces itself to a source as soon as a hint names it. */
	readonly eagerConnect: boolean;
	/** Writes an instance has in flight to one peer, at most. */
	readonly maxWritesPerPeer: number;
	/** Peers an instance remembers. */
	readonly maxPeers: number;
	/** A peer without managed memory, if there is one: it can only deliver. */
	readonly bare: number | undefined;
	/** Whether what hints bring in is checked against its checksum. */
	readonly integrity: boolean;
}

/** A run, before it has run. */
export interface Scenario {
	/** What all of it was drawn from. */
	readonly seed: string;
	/** How the instances are set up. */
	readonly setup: Setup;
	/** Chance of each fault. */
	readonly rates: FaultRates;
	/** What happens, in this order. */
	readonly steps: readonly TimedStep[];
}

/** What of a scenario can be chosen instead of drawn. */
export interface ScenarioOptions {
	/** Instances. @default 2 to 5, by seed */
	readonly peers?: number | undefined;
	/** Steps. @default 140 */
	readonly steps?: number | undefined;
	/** Replaces rates. */
	readonly rates?: Partial<FaultRates> | undefined;
}

const WEIGHTS: Readonly<Record<Step["kind"], number>> = {
	deposit: 14,
	hint: 24,
	discard: 5,
	fetch: 20,
	query: 2,
	deliver: 20,
	release: 14,
	abort: 6,
	store: 12,
	drop: 4,
	rebind: 2,
	learn: 2,
	lock: 2,
	silence: 2,
	stall: 1,
	crash: 1.5,
	close: 1.2,
	partition: 1.5,
};

/** The scenario of a seed. */
export function makeScenario(
	seed: string,
	options: ScenarioOptions = {},
): Scenario {
	const random = new SimRandom(`${seed} scenario`);
	const setup = drawSetup(random, options.peers);
	const rates = { ...drawRates(random), ...options.rates };
	const quiet = random.chance(0.25);
	const count = options.steps ?? 140;
	const workload = new Workload(random, setup);
	const steps: TimedStep[] = [];
	while (steps.length < count) {
		const kind = random.weighted(WEIGHTS);
		if (quiet && DISTURBANCES.has(kind)) continue;
		const after = random.chance(0.5)
			? 0
			: random.chance(0.03)
				? random.between(300, 1500)
				: random.between(1, 60);
		steps.push({ after, step: workload.draw(kind) });
	}
	return { seed, setup, rates, steps };
}

/** Steps after which things are not what they were. */
export const DISTURBANCES: ReadonlySet<string> = new Set([
	"lock",
	"silence",
	"stall",
	"crash",
	"close",
	"partition",
	"rebind",
]);

function drawSetup(random: SimRandom, peers: number | undefined): Setup {
	return {
		peers: peers ?? random.between(2, 5),
		hashes: random.between(6, 24),
		slots: { kv: random.between(5, 26), idx: random.between(3, 10) },
		policy: random.pick(["lru", "lru", "fifo", "frequency"] as const),
		recovery: random.pick(["wait", "fail"] as const),
		inventoryMs: random.pick([0, 0, 30]),
		watermark: random.pick([0, 30]),
		pollMs: random.pick([0, 2, 15]),
		latencyMs: random.pick([0, 1, 5]),
		incomingWakes: random.pick(["always", "expected"] as const),
		eagerConnect: random.chance(0.6),
		maxWritesPerPeer: random.pick([2, 64, 64]),
		maxPeers: random.pick([2, 64, 64]),
		bare: random.chance(0.25) ? 0 : undefined,
		integrity: random.chance(0.4),
	};
}
