/** Draws steps that have to do with each other: hints for what a peer has, calls for what a hint named. */
import type { SimRandom } from "./random.js";
import type { HintAction, Setup, Step } from "./scenario.js";

/** Requests of one peer that carry hints: each has a number below this. */
export const REQUESTS = 30;
/** Requests that calls are made for: the latest. Advice that has failed once is of no more use. */
const RECENT = 3;

/** What a hint told a request. */
interface Told {
	readonly source: number;
	readonly blocks: readonly number[];
}

export class Workload {
	readonly #random: SimRandom;
	readonly #setup: Setup;
	/** Blocks that each peer may have, as far as one can tell beforehand. */
	readonly #has: Set<number>[];
	/** By peer and request. */
	readonly #told: Map<number, Told>[];
	#next = 0;

	constructor(random: SimRandom, setup: Setup) {
		this.#random = random;
		this.#setup = setup;
		this.#has = Array.from({ length: setup.peers }, () => new Set());
		this.#told = Array.from({ length: setup.peers }, () => new Map());
	}

	/** The next step of a kind. */
	draw(kind: Step["kind"]): Step {
		const random = this.#random;
		const peer = random.below(this.#setup.peers);
		switch (kind) {
			case "deposit": {
				const blocks = this.#anyBlocks();
				for (const block of blocks) this.#has[peer]?.add(block);
				return {
					kind,
					peer,
					blocks,
					noEvict: random.chance(0.2),
					raw: random.chance(0.4),
				};
			}
			case "hint":
				return this.#hint(peer);
			case "discard": {
				const request = this.#oneOf(this.#told[peer]) ?? 0;
				this.#told[peer]?.delete(request);
				return { kind, peer, request };
			}
			case "fetch":
			case "query": {
				if (this.#isUntold(peer)) return this.#hint(peer);
				const { request, blocks } = this.#asTold(peer);
				for (const block of blocks) this.#has[peer]?.add(block);
				return { kind, peer, blocks, request };
			}
			case "deliver":
				if (this.#isUntold(peer)) return this.#hint(peer);
				return {
					kind,
					peer,
					...this.#asTold(peer),
					subset: random.chance(0.3),
				};
			case "release":
				return {
					kind,
					peer,
					pick: random.below(64),
					count: random.between(1, 6),
					twice: random.chance(0.15),
				};
			case "abort":
				return {
					kind,
					peer,
					pick: random.below(64),
					only: random.chance(0.5) ? random.below(8) : undefined,
				};
			case "store":
			case "drop":
			case "rebind":
			case "learn": {
				const block = this.#block();
				if (kind === "store") this.#has[peer]?.add(block);
				return { kind, peer, block };
			}
			case "lock":
			case "silence":
				return { kind, peer, ms: random.pick([5, 40, 200, 700]) };
			case "stall":
				return { kind, peer, ms: random.pick([50, 350, 900, 2500]) };
			case "crash":
			case "close":
				this.#has[peer]?.clear();
				this.#told[peer]?.clear();
				return {
					kind,
					peer,
					ms: random.pick([0, 20, 150, 800]),
					newAgentName: random.chance(0.5),
				};
			case "partition":
				return {
					kind,
					a: peer,
					b: this.#other(peer),
					ms: random.pick([20, 150, 600]),
					effect: random.pick(["control", "fail", "stall"] as const),
				};
		}
	}

	/** A peer that was told nothing has little to ask for. */
	#isUntold(peer: number): boolean {
		return this.#told[peer]?.size === 0 && this.#random.chance(0.85);
	}

	#hint(peer: number): Step {
		const random = this.#random;
		const request = this.#requestForHint(peer);
		const carried = random.chance(0.93);
		const count = random.pick([1, 1, 1, 1, 2, 3]);
		return {
			kind: "hint",
			peer,
			request: carried ? request : undefined,
			actions: Array.from({ length: count }, () =>
				this.#action(peer, request, carried),
			),
		};
	}

	#action(peer: number, request: number, carried: boolean): HintAction {
		const random = this.#random;
		const before = this.#told[peer]?.get(request);
		// Two sources for one request are a mistake of a router, and so is the receiver itself.
		const source = random.chance(0.025)
			? peer
			: before !== undefined && random.chance(0.97)
				? before.source
				: this.#other(peer);
		const there = [...(this.#has[source] ?? [])];
		const blocks =
			there.length > 0 && random.chance(0.85)
				? random
						.distinct(this.#count(), there.length)
						.map((at) => there[at] as number)
				: this.#anyBlocks();
		const independent = random.chance(0.4);
		if (carried && !independent) {
			const known = before?.source === source ? before.blocks : [];
			this.#told[peer]?.delete(request);
			this.#told[peer]?.set(request, {
				source,
				blocks: [...new Set([...blocks, ...known])].slice(0, 12),
			});
		} else for (const block of blocks) this.#has[peer]?.add(block);
		return {
			source,
			alias: random.chance(0.1),
			blocks,
			mode: random.chance(0.35) ? "move" : "copy",
			independent,
			allowFramework: random.chance(0.6),
		};
	}

	/** A request of the peer, and blocks it was mostly told about. */
	#asTold(peer: number): {
		readonly request: number;
		readonly blocks: readonly number[];
	} {
		const random = this.#random;
		const told = [...(this.#told[peer] ?? [])].slice(-RECENT);
		if (told.length === 0 || random.chance(0.12))
			return { request: random.below(REQUESTS), blocks: this.#anyBlocks() };
		const [request, { blocks }] = random.pick(told);
		return {
			request,
			blocks: random
				.distinct(this.#count(), blocks.length)
				.map((at) => blocks[at] as number),
		};
	}

	/** A request with a hint already now and then, otherwise the next. */
	#requestForHint(peer: number): number {
		if (this.#random.chance(0.3)) {
			const known = this.#oneOf(this.#told[peer]);
			if (known !== undefined) return known;
		}
		this.#next = (this.#next + 1) % REQUESTS;
		return this.#next;
	}

	#oneOf(told: ReadonlyMap<number, Told> | undefined): number | undefined {
		const requests = [...(told?.keys() ?? [])];
		return requests.length === 0 ? undefined : this.#random.pick(requests);
	}

	#anyBlocks(): number[] {
		const random = this.#random;
		return random
			.distinct(this.#count(), this.#setup.hashes)
			.map((hash) => this.#ofHash(hash));
	}

	#block(): number {
		return this.#ofHash(this.#random.below(this.#setup.hashes));
	}

	/** The other block of a hash is the exception. */
	#ofHash(hash: number): number {
		return hash * 2 + (this.#random.chance(0.1) ? 1 : 0);
	}

	#count(): number {
		return this.#random.pick([1, 1, 2, 3, 4, 6, 9]);
	}

	#other(peer: number): number {
		const { peers } = this.#setup;
		return (peer + 1 + this.#random.below(Math.max(1, peers - 1))) % peers;
	}
}
