/**
 * Groups that wait for their fetch, by source. A source has a bounded number of keys under way; sources take turns, so
 * that one which is slow holds up nobody else.
 */

/** Keys under way from one source at most; a larger group goes alone. */
export const MAX_KEYS_IN_FLIGHT_PER_SOURCE = 2_048;

/** What a lane must know of a group. */
export interface LaneGroup {
	readonly source: string;
	readonly keyCount: number;
}

interface Lane<G extends LaneGroup> {
	readonly source: string;
	/** Waiting groups from `head` on. */
	waiting: G[];
	head: number;
	readonly active: Set<G>;
	keysInFlight: number;
}

export class PlacementLanes<G extends LaneGroup> {
	readonly #lanes = new Map<string, Lane<G>>();
	/** Lanes with something waiting and room for it, in order of their turns. */
	readonly #ready = new Set<Lane<G>>();

	/** True when {@link next} has a group. */
	get hasNext(): boolean {
		return this.#ready.size > 0;
	}

	/** Sources with groups waiting or under way. */
	get sources(): number {
		return this.#lanes.size;
	}

	/** Adds a group at the end of its source's line. */
	add(group: G): void {
		let lane = this.#lanes.get(group.source);
		if (lane === undefined) {
			lane = {
				source: group.source,
				waiting: [],
				head: 0,
				active: new Set(),
				keysInFlight: 0,
			};
			this.#lanes.set(group.source, lane);
		}
		lane.waiting.push(group);
		this.#update(lane);
	}

	/** Takes the next group whose source has room; it is under way until {@link end}. */
	next(): G | undefined {
		const lane: Lane<G> | undefined = this.#ready.values().next().value;
		const group = lane?.waiting[lane.head];
		if (lane === undefined || group === undefined) return undefined;
		lane.head++;
		if (lane.head === lane.waiting.length) {
			lane.waiting = [];
			lane.head = 0;
		}
		lane.active.add(group);
		lane.keysInFlight += group.keyCount;
		// The next turn is another source's.
		this.#ready.delete(lane);
		this.#update(lane);
		return group;
	}

	/** Ends a group that was under way. */
	end(group: G): void {
		const lane = this.#lanes.get(group.source);
		if (lane === undefined || !lane.active.delete(group)) return;
		lane.keysInFlight -= group.keyCount;
		this.#update(lane);
	}

	/** Empties all lanes and returns what was in them: groups under way, and groups that waited. */
	clear(): { readonly active: readonly G[]; readonly waiting: readonly G[] } {
		const active: G[] = [];
		const waiting: G[] = [];
		for (const lane of this.#lanes.values()) {
			active.push(...lane.active);
			waiting.push(...lane.waiting.slice(lane.head));
		}
		this.#lanes.clear();
		this.#ready.clear();
		return { active, waiting };
	}

	#update(lane: Lane<G>): void {
		const first = lane.waiting[lane.head];
		if (first === undefined) {
			this.#ready.delete(lane);
			if (lane.active.size === 0) this.#lanes.delete(lane.source);
		} else if (
			lane.keysInFlight === 0 ||
			lane.keysInFlight + first.keyCount <= MAX_KEYS_IN_FLIGHT_PER_SOURCE
		)
			this.#ready.add(lane);
		else this.#ready.delete(lane);
	}
}
