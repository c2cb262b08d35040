/** What a run is: its peers, its faults, and the list of its steps. All of it follows from the seed. */
import { drawRates, type FaultRates } from "./faults.js";
import { SimRandom } from "./random.js";
import { Workload } from "./workload.js";

/** One thing an owner does, or that happens to a process. Names of things are numbers, taken modulo what there is. */
export type Step =
	| {
			readonly kind: "deposit";
			readonly peer: number;
			readonly blocks: readonly number[];
			readonly noEvict: boolean;
			/** Straight from bytes instead of from registered framework memory. */
			readonly raw: boolean;
	  }
	| {
			readonly kind: "hint";
			readonly peer: number;
			/** Request that carries it; absent: none does. */
			readonly request: number | undefined;
			readonly actions: readonly HintAction[];
	  }
	| {
			readonly kind: "discard";
			readonly peer: number;
			readonly request: number;
	  }
	| {
			readonly kind: "fetch" | "query";
			readonly peer: number;
			readonly blocks: readonly number[];
			readonly request: number;
	  }
	| {
			readonly kind: "deliver";
			readonly peer: number;
			readonly blocks: readonly number[];
			readonly request: number;
			/** Only the last label of layouts with different labels. */
			readonly subset: boolean;
	  }
	| {
			readonly kind: "release";
			readonly peer: number;
			readonly pick: number;
			readonly count: number;
			readonly twice: boolean;
	  }
	| {
			readonly kind: "abort";
			readonly peer: number;
			readonly pick: number;
			/** Position of the one key to give up; absent: all of them. */
			readonly only: number | undefined;
	  }
	| {
			/** Framework memory: a block comes, or goes unless it is pinned. */
			readonly kind: "store" | "drop" | "rebind" | "learn";
			readonly peer: number;
			readonly block: number;
	  }
	| {
			/** Lock: the state lock is held. Silence: the owner does not poll. Stall: the process does not run. */
			readonly kind: "lock" | "silence" | "stall";
			readonly peer: number;
			readonly ms: number;
	  }
	| {
			readonly kind: "crash" | "close";
			readonly peer: number;
			/** Until it is there again, under the same name and endpoint. */
			readonly ms: number;
			readonly newAgentName: boolean;
	  }
	| {
			readonly kind: "partition";
			readonly a: number;
			readonly b: number;
			readonly ms: number;
			/** What the cut does to writes; `control` cuts control messages only. */
			readonly effect: "control" | "fail" | "stall";
	  };

/** One action of a hint. */
export interface HintAction {
	readonly source: number;
	/** Reaches the source by its second name. */
	readonly alias: boolean;
	readonly blocks: readonly number[];
	readonly mode: "copy" | "move";
	readonly independent: boolean;
	readonly allowFramework: boolean;
}

/** A step and the time that passes before it, in milliseconds. */
export interface TimedStep {
	readonly after: number;
	readonly step: Step;
}

/** How the instances of a run are set up. */
export interface Setup {
	readonly peers: number;
	readonly hashes: number;
	/** Slots by pool. */
	readonly slots: Readonly<Record<string, number>>;
	readonly policy: "lru" | "fifo" | "frequency";
	readonly recovery: "wait" | "fail";
	readonly inventoryMs: number;
	readonly watermark: number;
	/** Milliseconds between a wake-up and the poll it causes, at most. */
	readonly pollMs: number;
	readonly latencyMs: number;
	readonly incomingWakes: "always" | "expected";
	readonly eagerConnect: boolean;
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
	readonly seed: string;
	readonly setup: Setup;
	readonly rates: FaultRates;
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
