/**
 * What managed G2 is supposed to do, in the plainest terms: lists instead of queues, numbers of slots instead of slots,
 * every total counted anew. The property test holds the real one against it.
 */

/** A block of the model. */
export interface ModelBlock {
	readonly key: string;
	readonly layout: readonly string[];
	state: "FILLING" | "READY" | "DISCARDING" | "GONE";
	claims: number;
	retiring: boolean;
	/** Rank in the eviction order: time of the last access, then order of becoming evictable. */
	lastAccess: number;
	rank: number;
}

/** What a policy does during one admission. */
export interface Moods {
	readonly drops: ReadonlySet<string>;
	readonly throwsAtIngest: ReadonlySet<string>;
	readonly keeps: ReadonlySet<string>;
	readonly throwsAtEviction: ReadonlySet<string>;
}

/** Slots by pool. */
type Slots = Map<string, number>;

const poolOf = (label: string): string => label.split(":")[0] as string;

function slotsOf(layout: readonly string[]): Slots {
	const slots: Slots = new Map();
	for (const label of layout)
		slots.set(poolOf(label), (slots.get(poolOf(label)) ?? 0) + 1);
	return slots;
}

export class CacheModel {
	readonly blocks = new Map<string, ModelBlock>();
	readonly handles: ModelBlock[][] = [];
	/** `+key` became available, `-key` left. */
	readonly events: string[] = [];
	readonly #totals: Slots;
	#rank = 0;

	constructor(totals: Readonly<Record<string, number>>) {
		this.#totals = new Map(Object.entries(totals));
	}

	evictable(): ModelBlock[] {
		return [...this.blocks.values()]
			.filter(({ state, claims }) => state === "READY" && claims === 0)
			.sort((a, b) => a.lastAccess - b.lastAccess || a.rank - b.rank);
	}

	/** Slots of a pool in blocks of some kind. */
	used(
		pool: string,
		which: (block: ModelBlock) => boolean = () => true,
	): number {
		let used = 0;
		for (const block of this.blocks.values())
			if (which(block)) used += slotsOf(block.layout).get(pool) ?? 0;
		return used;
	}

	free(pool: string): number {
		return (this.#totals.get(pool) ?? 0) - this.used(pool);
	}

	/** Kinds of outcomes, in order. */
	admit(
		requests: readonly { key: string; layout: readonly string[] }[],
		protect: ReadonlySet<string>,
		moods: Moods,
		now: number,
	): string[] {
		const outcomes = new Map<number, string>();
		const first = new Map<string, number>();
		const candidates: number[] = [];
		requests.forEach(({ key, layout }, i) => {
			if (first.has(key)) return;
			first.set(key, i);
			if (this.blocks.has(key)) outcomes.set(i, "known");
			else if (
				[...slotsOf(layout)].some(
					([pool, n]) => n > (this.#totals.get(pool) ?? 0),
				)
			)
				outcomes.set(i, "too_large");
			else if (moods.throwsAtIngest.has(key)) outcomes.set(i, "policy_error");
			else if (moods.drops.has(key)) outcomes.set(i, "dropped");
			else candidates.push(i);
		});
		const needs = (i: number): Slots => slotsOf(requests[i]?.layout ?? []);

		const short: Slots = new Map(
			[...this.#totals.keys()].map((pool) => [pool, -this.free(pool)]),
		);
		const hope: Slots = new Map(
			[...this.#totals.keys()].map((pool) => [
				pool,
				this.free(pool) +
					this.used(
						pool,
						({ state, claims }) => state === "READY" && claims === 0,
					),
			]),
		);
		for (const i of candidates) {
			if (!fits(needs(i), hope)) continue;
			change(hope, needs(i), -1);
			change(short, needs(i), 1);
		}
		const victims: ModelBlock[] = [];
		let failed = false;
		for (const block of this.evictable()) {
			if (
				protect.has(block.key) ||
				first.has(block.key) ||
				!helps(block, short)
			)
				continue;
			if (moods.throwsAtEviction.has(block.key)) {
				failed = true;
				break;
			}
			if (moods.keeps.has(block.key)) continue;
			victims.push(block);
			change(short, slotsOf(block.layout), -1);
		}

		const supply: Slots = new Map(
			[...this.#totals.keys()].map((pool) => [pool, this.free(pool)]),
		);
		const demand: Slots = new Map(
			[...this.#totals.keys()].map((pool) => [pool, -this.free(pool)]),
		);
		for (const victim of victims) change(supply, slotsOf(victim.layout), 1);
		for (const i of candidates) {
			if (!fits(needs(i), supply)) {
				outcomes.set(i, failed ? "policy_error" : "no_capacity");
				continue;
			}
			change(supply, needs(i), -1);
			change(demand, needs(i), 1);
			outcomes.set(i, "reserved");
		}
		for (const victim of victims) {
			if (!helps(victim, demand)) continue;
			change(demand, slotsOf(victim.layout), -1);
			this.leave(victim);
		}
		return requests.map(({ key, layout }, i) => {
			const original = first.get(key) as number;
			const outcome = outcomes.get(original) as string;
			if (i !== original) return outcome === "reserved" ? "known" : outcome;
			if (outcome === "reserved") {
				this.blocks.set(key, {
					key,
					layout,
					state: "FILLING",
					claims: 1,
					retiring: false,
					lastAccess: now,
					rank: 0,
				});
			}
			return outcome;
		});
	}

	complete(block: ModelBlock): void {
		block.state = "READY";
		this.events.push(`+${block.key}`);
	}

	/** Ends a block, whatever its state. */
	leave(block: ModelBlock): void {
		if (block.state === "READY") this.events.push(`-${block.key}`);
		block.state = "GONE";
		block.claims = 0;
		this.blocks.delete(block.key);
	}

	claim(block: ModelBlock, now: number): void {
		block.claims += 1;
		block.lastAccess = now;
	}

	unclaim(block: ModelBlock): void {
		block.claims -= 1;
		if (block.claims > 0) return;
		if (block.retiring) this.leave(block);
		else block.rank = ++this.#rank;
	}

	touch(block: ModelBlock, now: number): void {
		block.lastAccess = now;
		if (block.state === "READY" && block.claims === 0)
			block.rank = ++this.#rank;
	}
}

function fits(need: Slots, supply: Slots): boolean {
	return [...need].every(([pool, n]) => n <= (supply.get(pool) ?? 0));
}

function helps(block: ModelBlock, short: Slots): boolean {
	return [...slotsOf(block.layout).keys()].some(
		(pool) => (short.get(pool) ?? 0) > 0,
	);
}

function change(slots: Slots, by: Slots, times: 1 | -1): void {
	for (const [pool, n] of by)
		slots.set(pool, (slots.get(pool) ?? 0) + times * n);
}
