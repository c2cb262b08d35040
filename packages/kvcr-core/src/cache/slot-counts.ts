/** Numbers of slots by pool index, in plain arrays that an admission reuses. */
import type { Layout } from "./layout.js";
import type { SlotPool } from "./slot-pool.js";

/** Whether there are slots enough for one block of this layout. */
export function covers(slots: Float64Array, layout: Layout): boolean {
	const { distinct, counts } = layout;
	for (let i = 0; i < distinct.length; i++) {
		if (
			(slots[(distinct[i] as SlotPool).index] as number) < (counts[i] as number)
		)
			return false;
	}
	return true;
}

/** Adds, or with -1 takes away, the slots of one block. */
export function add(slots: Float64Array, layout: Layout, times: 1 | -1): void {
	const { distinct, counts } = layout;
	for (let i = 0; i < distinct.length; i++) {
		const { index } = distinct[i] as SlotPool;
		slots[index] = (slots[index] as number) + times * (counts[i] as number);
	}
}

/** Whether a block of this layout has a slot in a pool with a number above zero. */
export function touches(slots: Float64Array, layout: Layout): boolean {
	const { distinct } = layout;
	for (let i = 0; i < distinct.length; i++) {
		if ((slots[(distinct[i] as SlotPool).index] as number) > 0) return true;
	}
	return false;
}
