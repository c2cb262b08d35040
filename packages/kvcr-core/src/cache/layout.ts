/** Layouts: the ordered labels of a block's pieces, shared between all blocks with equal ones. */
import { InvalidArgumentError } from "../ports/index.js";
import type { SlotPool } from "./slot-pool.js";

/** Largest number of pieces of one block. */
export const MAX_LAYOUT_PIECES = 4096;

/** The pool a label belongs to: `"kv"` and `"kv:layer0"` both name pool `"kv"`. */
export function poolOfLabel(label: string): string {
	const colon = label.indexOf(":");
	return colon < 0 ? label : label.slice(0, colon);
}

/** One distinct layout. Equal layouts are one object while any block uses them. */
export interface Layout {
	readonly labels: readonly string[];
	/** Pool of each piece. */
	readonly pools: readonly SlotPool[];
	/** The distinct pools, and in `counts` how many slots a block takes from each. */
	readonly distinct: readonly SlotPool[];
	readonly counts: readonly number[];
	/** Small number that layouts with the same set of pools share. */
	readonly lane: number;
	/** Bytes of all pieces together. */
	readonly bytes: number;
	/** False when a block of this layout cannot fit even into empty pools. */
	readonly fits: boolean;
	/** Blocks that use it. Kept by the table. */
	users: number;
}

/** Interns layouts. The table forgets a layout when its last block goes, so that labels chosen by peers do not pile up. */
export class LayoutTable {
	readonly #pools: ReadonlyMap<string, SlotPool>;
	readonly #interned = new Map<string, Layout>();
	/** Numbers of the pool sets seen so far: at most one per subset of the pools. */
	readonly #lanes = new Map<string, number>();
	/** The layout of the previous lookup: batches nearly always repeat it. */
	#last: Layout | undefined;

	constructor(pools: readonly SlotPool[]) {
		this.#pools = new Map(pools.map((pool) => [pool.name, pool]));
	}

	/** Number of layouts in use. */
	get size(): number {
		return this.#interned.size;
	}

	/** The pool of a label, when there is one. */
	poolOf(label: string): SlotPool | undefined {
		return this.#pools.get(poolOfLabel(label));
	}

	/**
	 * Finds or builds the layout of these labels. It stays in the table only once {@link retain} was called.
	 * @throws InvalidArgumentError when the list is empty or too long, or a label names no pool.
	 */
	lookup(
		labels: readonly string[],
		operation: string,
		argument: string,
	): Layout {
		const last = this.#last;
		if (last !== undefined && sameLabels(last.labels, labels)) return last;
		if (
			!Array.isArray(labels) ||
			labels.length === 0 ||
			labels.length > MAX_LAYOUT_PIECES
		) {
			throw new InvalidArgumentError(
				operation,
				argument,
				labels,
				`an array of 1 to ${MAX_LAYOUT_PIECES} pool labels`,
			);
		}
		const layout =
			this.#interned.get(JSON.stringify(labels)) ??
			this.#build(labels, operation, argument);
		this.#last = layout;
		return layout;
	}

	/** One more block uses the layout. Returns the object that all its users share. */
	retain(layout: Layout): Layout {
		let shared = layout;
		if (layout.users === 0) {
			const text = JSON.stringify(layout.labels);
			shared = this.#interned.get(text) ?? layout;
			if (shared === layout) this.#interned.set(text, layout);
		}
		shared.users += 1;
		return shared;
	}

	/** One block less uses the layout. */
	release(layout: Layout): void {
		layout.users -= 1;
		if (layout.users === 0)
			this.#interned.delete(JSON.stringify(layout.labels));
	}

	#laneOf(pools: readonly SlotPool[]): number {
		const set = pools
			.map((pool) => pool.index)
			.sort((a, b) => a - b)
			.join();
		const lane = this.#lanes.get(set) ?? this.#lanes.size;
		this.#lanes.set(set, lane);
		return lane;
	}

	#build(
		labels: readonly string[],
		operation: string,
		argument: string,
	): Layout {
		const pools: SlotPool[] = [];
		const counts = new Map<SlotPool, number>();
		let bytes = 0;
		for (let i = 0; i < labels.length; i++) {
			const label = labels[i] as string;
			const pool = typeof label === "string" ? this.poolOf(label) : undefined;
			if (pool === undefined) {
				throw new InvalidArgumentError(
					operation,
					`${argument}[${i}]`,
					label,
					`a label of one of the pools ${[...this.#pools.keys()].map((name) => JSON.stringify(name)).join(", ")}`,
				);
			}
			pools.push(pool);
			counts.set(pool, (counts.get(pool) ?? 0) + 1);
			bytes += pool.region.elementBytes;
		}
		return {
			labels: Object.freeze([...labels]),
			pools,
			distinct: [...counts.keys()],
			counts: [...counts.values()],
			lane: this.#laneOf([...counts.keys()]),
			bytes,
			fits: [...counts].every(([pool, count]) => count <= pool.total),
			users: 0,
		};
	}
}

function sameLabels(a: readonly string[], b: readonly string[]): boolean {
	if (a.length !== b.length) return false;
	for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
	return true;
}
