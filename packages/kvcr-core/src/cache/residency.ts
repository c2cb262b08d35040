/** A block in managed G2: its record and its life. */
import { type BlockKey, type BlockMeta, keyFromText } from "../ports/index.js";
import { ResidencyStateError } from "./errors.js";
import type { Layout } from "./layout.js";

/**
 * States of a residency. FILLING: slots are reserved, bytes are on their way. READY: bytes are complete. DISCARDING:
 * the fill was given up while its slots may still be written. EVICTED, RETIRED and FREED are ends: the slots are free.
 */
export type ResidencyState =
	| "FILLING"
	| "READY"
	| "DISCARDING"
	| "EVICTED"
	| "RETIRED"
	| "FREED";

const NEXT: Readonly<Record<ResidencyState, readonly ResidencyState[]>> = {
	FILLING: ["READY", "DISCARDING", "FREED"],
	READY: ["EVICTED", "RETIRED"],
	DISCARDING: ["FREED"],
	EVICTED: [],
	RETIRED: [],
	FREED: [],
};

/** A block that has slots in managed G2, as others see it. Also what a policy is shown. */
export interface Residency extends BlockMeta {
	/** Full key, one character per byte. */
	readonly keyText: string;
	readonly state: ResidencyState;
	/** Labels of the pieces. Equal layouts are the same array. */
	readonly layout: readonly string[];
	/** Slot of each piece, in layout order. */
	readonly slots: readonly number[];
	/** Claims on it; above zero it cannot be evicted. The fill itself holds one while FILLING. */
	readonly claims: number;
	/** True when it goes at the last unclaim. */
	readonly retiring: boolean;
}

/**
 * Where a record is in the eviction queue. `No`: claimed, not ready, or gone. `Pending`: waits for its score. `Run` and
 * `Heap`: the two halves of the queue.
 */
export const Queued = { No: 0, Pending: 1, Run: 2, Heap: 3 } as const;
export type Queued = (typeof Queued)[keyof typeof Queued];

/**
 * The record behind a {@link Residency}. Small on purpose: the bytes of the key are made from the text when asked
 * for, a single slot is stored without an array, and the links of the eviction queue live in the record itself.
 */
export class ResidencyRecord implements Residency {
	readonly keyText: string;
	/** The shared layout; exchanged for the interned one when the slots are taken. */
	layoutInfo: Layout;
	/** The slot of a single-piece block, the slots of any other. -1 before they are taken. */
	slotOrSlots: number | readonly number[] = -1;
	state: ResidencyState = "FILLING";
	claims = 0;
	retiring = false;
	accessCount = 0;
	lastAccess: number;
	readonly admittedAt: number;
	/** Position in the eviction queue; maintained by it. */
	queued: Queued = Queued.No;
	score = Number.NaN;
	sequence = 0;
	heapIndex = -1;
	previous: ResidencyRecord | undefined = undefined;
	next: ResidencyRecord | undefined = undefined;

	constructor(keyText: string, layout: Layout, now: number) {
		this.keyText = keyText;
		this.layoutInfo = layout;
		this.lastAccess = now;
		this.admittedAt = now;
	}

	get key(): BlockKey {
		return keyFromText(this.keyText);
	}

	get layout(): readonly string[] {
		return this.layoutInfo.labels;
	}

	get sizeBytes(): number {
		return this.layoutInfo.bytes;
	}

	get slots(): readonly number[] {
		return typeof this.slotOrSlots === "number"
			? [this.slotOrSlots]
			: this.slotOrSlots;
	}
}

/** The only place where a state changes. @throws ResidencyStateError for a change that does not exist. */
export function transition(
	record: ResidencyRecord,
	to: ResidencyState,
	operation: string,
): void {
	const allowed = NEXT[record.state];
	if (!allowed.includes(to)) {
		const before = (Object.keys(NEXT) as ResidencyState[]).filter((state) =>
			NEXT[state].includes(to),
		);
		throw new ResidencyStateError(operation, record.state, before.join(" or "));
	}
	record.state = to;
}

/** @throws ResidencyStateError unless the record is in the one state the operation is for. */
export function expectState(
	record: ResidencyRecord,
	state: ResidencyState,
	operation: string,
): void {
	if (record.state !== state)
		throw new ResidencyStateError(operation, record.state, state);
}
