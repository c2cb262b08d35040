/** Admission: who gets slots, and who has to go for it. */
import type { Clock, IngestSource } from "../ports/index.js";
import { PolicyError } from "./errors.js";
import type { Layout, LayoutTable } from "./layout.js";
import type { PolicyGuard } from "./policy-guard.js";
import { type Residency, ResidencyRecord } from "./residency.js";
import type { ResidencyTable } from "./residency-table.js";
import { add, covers, touches } from "./slot-counts.js";
import type { SlotPool } from "./slot-pool.js";

/** A block that wants to be in managed G2. */
export interface AdmissionRequest {
	/** Full key, one character per byte (see `keyText`). */
	readonly keyText: string;
	/** Labels of its pieces, in order. */
	readonly layout: readonly string[];
}

/** What became of one request. */
export type AdmissionOutcome =
	/** It has slots and is FILLING, with the one claim of the fill. */
	| { readonly kind: "reserved"; readonly residency: Residency }
	/** The key has a residency already, in any state; nothing was changed. */
	| { readonly kind: "known"; readonly residency: Residency }
	/** The policy does not want it. */
	| { readonly kind: "dropped" }
	/** Too few slots are free or reclaimable; the missing ones by pool name. */
	| {
			readonly kind: "no_capacity";
			readonly missing: ReadonlyMap<string, number>;
	  }
	/** It would not fit even into empty pools. */
	| { readonly kind: "too_large" }
	/** The policy failed while this request needed it. */
	| { readonly kind: "policy_error"; readonly error: PolicyError };

/** The narrow things an admission works with. */
export interface AdmissionParts {
	readonly pools: readonly SlotPool[];
	readonly layouts: LayoutTable;
	readonly table: ResidencyTable;
	readonly policy: PolicyGuard;
	readonly clock: Clock;
	/** Whether slots of this pool are spoken for by somebody who waits longer. */
	readonly blocked: (pool: SlotPool) => boolean;
}

const DROPPED: AdmissionOutcome = { kind: "dropped" };
const TOO_LARGE: AdmissionOutcome = { kind: "too_large" };

/** Admits batches of blocks, each block entirely or not at all. Keeps only scratch space between calls. */
export class Admission {
	readonly #parts: AdmissionParts;
	/** Slots by pool index: still missing, and still to hand out. */
	readonly #short: Float64Array;
	readonly #supply: Float64Array;
	readonly #victims: ResidencyRecord[] = [];

	constructor(parts: AdmissionParts) {
		this.#parts = parts;
		this.#short = new Float64Array(parts.pools.length);
		this.#supply = new Float64Array(parts.pools.length);
	}

	/**
	 * Decides the batch in three steps: ask the policy who may enter, walk the eviction queue once for what is short, then
	 * hand out slots without asking anybody. Only blocks whose slots are used leave.
	 * @throws InvalidArgumentError for a layout that names unknown pools; nothing has changed then.
	 */
	admit(
		requests: readonly AdmissionRequest[],
		source: IngestSource,
		protect: ReadonlySet<string> | undefined,
	): AdmissionOutcome[] {
		const layouts = requests.map((request, i) =>
			this.#parts.layouts.lookup(request.layout, "admit", `batch[${i}].layout`),
		);
		const outcomes: AdmissionOutcome[] = new Array(requests.length);
		const candidates: (ResidencyRecord | undefined)[] = new Array(
			requests.length,
		);
		const seen = requests.length > 1 ? new Map<string, number>() : undefined;
		const repeats: [index: number, first: number][] = [];
		const own = new Set<ResidencyRecord>();
		const now = this.#parts.clock.now();
		for (let i = 0; i < requests.length; i++) {
			const { keyText } = requests[i] as AdmissionRequest;
			const first = seen?.get(keyText);
			if (first !== undefined) {
				repeats.push([i, first]);
				continue;
			}
			seen?.set(keyText, i);
			const known = this.#parts.table.get(keyText);
			if (known !== undefined) {
				own.add(known);
				outcomes[i] = { kind: "known", residency: known };
				continue;
			}
			const record = new ResidencyRecord(keyText, layouts[i] as Layout, now);
			const refusal = this.#screen(record, source);
			if (refusal === undefined) candidates[i] = record;
			else outcomes[i] = refusal;
		}
		const failure = this.#findShortage(candidates)
			? this.#walk(protect, own)
			: undefined;
		this.#handOut(candidates, outcomes, failure);
		for (const [index, first] of repeats) {
			const outcome = outcomes[first] as AdmissionOutcome;
			outcomes[index] =
				outcome.kind === "reserved"
					? { kind: "known", residency: outcome.residency }
					: outcome;
		}
		return outcomes;
	}

	/** Why a block may not compete for slots. */
	#screen(
		record: ResidencyRecord,
		source: IngestSource,
	): AdmissionOutcome | undefined {
		if (!record.layoutInfo.fits) return TOO_LARGE;
		const answer = this.#parts.policy.decideIngest(record, source);
		if (answer === "keep") return undefined;
		return answer === "drop"
			? DROPPED
			: { kind: "policy_error", error: answer };
	}

	/** Sets `#short` to what must be evicted for the candidates that have a chance at all. True when that is anything. */
	#findShortage(candidates: readonly (ResidencyRecord | undefined)[]): boolean {
		const { pools, blocked } = this.#parts;
		for (const pool of pools) {
			this.#supply[pool.index] = blocked(pool) ? 0 : pool.available;
			this.#short[pool.index] = -pool.free;
		}
		for (const record of candidates) {
			if (record === undefined || !covers(this.#supply, record.layoutInfo))
				continue;
			add(this.#supply, record.layoutInfo, -1);
			add(this.#short, record.layoutInfo, 1);
		}
		return this.#isShort();
	}

	/** Chooses victims until nothing is short, or all were asked. Returns the error of a policy that failed. */
	#walk(
		protect: ReadonlySet<string> | undefined,
		own: ReadonlySet<ResidencyRecord>,
	): PolicyError | undefined {
		const { table, policy } = this.#parts;
		try {
			for (;;) {
				const record = table.queue.step(this.#short);
				if (record === undefined) return undefined;
				if (own.has(record) || protect?.has(record.keyText)) continue;
				const answer = policy.decideEviction(record);
				if (answer === "keep") continue;
				if (answer instanceof PolicyError) return answer;
				this.#victims.push(record);
				add(this.#short, record.layoutInfo, -1);
			}
		} finally {
			table.queue.endWalk();
		}
	}

	/** Evicts the victims that are needed and gives the slots to the candidates in order. No policy is asked here. */
	#handOut(
		candidates: (ResidencyRecord | undefined)[],
		outcomes: AdmissionOutcome[],
		failure: PolicyError | undefined,
	): void {
		const { pools, blocked, table } = this.#parts;
		const victims = this.#victims.splice(0);
		for (const pool of pools) this.#short[pool.index] = -pool.free;
		for (const pool of pools) this.#supply[pool.index] = pool.free;
		for (const victim of victims) add(this.#supply, victim.layoutInfo, 1);
		for (const pool of pools) if (blocked(pool)) this.#supply[pool.index] = 0;
		for (let i = 0; i < candidates.length; i++) {
			const layout = candidates[i]?.layoutInfo;
			if (layout === undefined) continue;
			if (covers(this.#supply, layout)) {
				add(this.#supply, layout, -1);
				add(this.#short, layout, 1);
				continue;
			}
			candidates[i] = undefined;
			outcomes[i] =
				failure === undefined
					? { kind: "no_capacity", missing: this.#missing(layout) }
					: { kind: "policy_error", error: failure };
		}
		for (const victim of victims) {
			if (!touches(this.#short, victim.layoutInfo)) continue;
			add(this.#short, victim.layoutInfo, -1);
			table.evict(victim);
		}
		for (let i = 0; i < candidates.length; i++) {
			const record = candidates[i];
			if (record === undefined) continue;
			table.reserve(record);
			outcomes[i] = { kind: "reserved", residency: record };
		}
	}

	#isShort(): boolean {
		for (let i = 0; i < this.#short.length; i++)
			if ((this.#short[i] as number) > 0) return true;
		return false;
	}

	#missing(layout: Layout): ReadonlyMap<string, number> {
		const missing = new Map<string, number>();
		for (let i = 0; i < layout.distinct.length; i++) {
			const pool = layout.distinct[i] as SlotPool;
			const lack =
				(layout.counts[i] as number) - (this.#supply[pool.index] as number);
			if (lack > 0) missing.set(pool.name, lack);
		}
		return missing;
	}
}
