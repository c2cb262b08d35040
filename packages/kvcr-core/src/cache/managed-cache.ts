/**
 * Managed G2: host memory in pools of slots, the blocks that live in it, and who may stay.
 *
 * Two roles use it. Claims, fills and look-ups may come from progress: they never call a policy, a sink or a listener.
 * What these are owed is queued and done in `settle()` and `admit()`, which only the owner's side calls.
 */
import {
	type Clock,
	ClosedError,
	type IngestSource,
	InvalidArgumentError,
	type PlacementFailure,
	type ReleaseHandle,
} from "../ports/index.js";
import {
	Admission,
	type AdmissionOutcome,
	type AdmissionRequest,
} from "./admission.js";
import {
	CapacityQueue,
	type CapacityTicket,
	type CapacityWaiter,
} from "./capacity-queue.js";
import { assertConsistent } from "./consistency.js";
import { ClaimError, ReentrantPolicyError } from "./errors.js";
import { InventoryBatcher } from "./inventory-batcher.js";
import { LayoutTable } from "./layout.js";
import type {
	ManagedCacheOptions,
	ManagedCacheStats,
	Piece,
} from "./managed-cache-types.js";
import { OwnerEffects } from "./owner-effects.js";
import { LruPolicy } from "./policies/index.js";
import { PolicyGuard } from "./policy-guard.js";
import { ReleaseHandles } from "./release-handles.js";
import type { Residency, ResidencyRecord } from "./residency.js";
import { ResidencyTable } from "./residency-table.js";
import { createPools, type SlotPool } from "./slot-pool.js";
import { CapacityWatermark } from "./watermark.js";

/** Managed G2 of one instance. */
export class ManagedCache {
	readonly #pools: readonly SlotPool[];
	readonly #layouts: LayoutTable;
	readonly #table: ResidencyTable;
	readonly #policy: PolicyGuard;
	readonly #admission: Admission;
	readonly #handles = new ReleaseHandles();
	readonly #effects: OwnerEffects;
	readonly #inventory: InventoryBatcher | undefined;
	readonly #watermark: CapacityWatermark | undefined;
	readonly #waiters: CapacityQueue;
	readonly #clock: Clock;
	readonly #onOwnerWork: (() => void) | undefined;
	#woken = false;
	#settling = false;
	#closed = false;

	/** @throws InvalidArgumentError for unusable pools, intervals or percentages. */
	constructor(options: ManagedCacheOptions) {
		const { clock, logger, inventorySink, capacityListener } = options;
		const intervalMs = options.inventoryReportIntervalMs ?? 0;
		const percent = options.capacityLowWatermarkPercent ?? 0;
		checkRange("inventoryReportIntervalMs", intervalMs, 0x7fff_ffff);
		checkRange("capacityLowWatermarkPercent", percent, 100);
		const wake = () => this.#wake();
		this.#clock = clock;
		this.#onOwnerWork = options.onOwnerWork;
		this.#pools = createPools(options.pools);
		this.#layouts = new LayoutTable(this.#pools);
		this.#policy = new PolicyGuard(options.policy ?? new LruPolicy(), logger);
		this.#inventory =
			inventorySink &&
			new InventoryBatcher({
				sink: inventorySink,
				intervalMs,
				clock,
				logger,
				onDue: wake,
			});
		this.#effects = new OwnerEffects(this.#policy, this.#inventory);
		this.#watermark =
			capacityListener && percent > 0
				? new CapacityWatermark(this.#pools, percent, capacityListener, logger)
				: undefined;
		this.#waiters = new CapacityQueue(this.#pools, clock, wake);
		this.#table = new ResidencyTable(this.#layouts, {
			becameReady: (record) =>
				this.#effects.note(record, false) && this.#wake(),
			left: (record) => this.#effects.note(record, true) && this.#wake(),
			grew: () => this.#waiters.noteGrowth() && this.#wake(),
			shrank: (layout) =>
				this.#watermark?.isShortOfAny(layout.distinct) && this.#wake(),
		});
		this.#admission = new Admission({
			pools: this.#pools,
			layouts: this.#layouts,
			table: this.#table,
			policy: this.#policy,
			clock,
			blocked: (pool) => this.#waiters.blocked(pool),
		});
	}

	/** The residency of a key: FILLING, READY or DISCARDING. Changes nothing, not even the eviction order. */
	get(keyText: string): Residency | undefined {
		return this.#table.get(keyText);
	}

	/** Bytes of each piece of a layout, or `undefined` when one of its labels names no pool here. */
	pieceSizes(layout: readonly string[]): readonly number[] | undefined {
		const sizes: number[] = [];
		for (const label of layout) {
			const pool = this.#layouts.poolOf(label);
			if (pool === undefined) return undefined;
			sizes.push(pool.region.elementBytes);
		}
		return sizes;
	}

	/**
	 * Reserves slots for blocks, each entirely or not at all, and evicts for them if need be. Owner's side only.
	 * @param protect Further keys that must not be evicted for this batch; its own keys never are.
	 * @returns One outcome per request, in order.
	 * @throws InvalidArgumentError for a layout that is empty or names unknown pools, ReentrantPolicyError inside a policy
	 * decision, ClosedError; nothing has changed then.
	 */
	admit(
		batch: readonly AdmissionRequest[],
		source: IngestSource,
		protect?: ReadonlySet<string>,
	): AdmissionOutcome[] {
		this.#enter("admit");
		if (this.#closed) throw new ClosedError("admit", "managed G2");
		this.#catchUp();
		return this.#admission.admit(batch, source, protect);
	}

	/** Asks the policy what to do about slots that are short. A policy that throws means `"fail"`. Owner's side only. */
	decideRecovery(failure: PlacementFailure): "fail" | "wait" {
		return this.#policy.decideRecovery(failure);
	}

	/**
	 * Waits for capacity, behind those who wait already. Until the wait ends, admissions of others get no slots of the pools in
	 * `missing`. `waiter` is called inside {@link settle} and {@link close} only.
	 * @param deadline Clock time in milliseconds.
	 * @throws ClosedError
	 */
	waitForCapacity(
		waiter: CapacityWaiter,
		missing: ReadonlyMap<string, number>,
		deadline: number,
	): CapacityTicket {
		if (this.#closed) throw new ClosedError("waitForCapacity", "managed G2");
		return this.#waiters.add(waiter, missing, deadline);
	}

	/** FILLING → READY: all bytes are there. The claims stay, that of the fill included. @throws ResidencyStateError */
	completeFill(residency: Residency): void {
		this.#enter("completeFill");
		this.#table.completeFill(residency as ResidencyRecord);
	}

	/** FILLING → FREED: nothing will write to the slots any more. Ends all claims. @throws ResidencyStateError */
	failFill(residency: Residency): void {
		this.#enter("failFill");
		this.#table.failFill(residency as ResidencyRecord);
	}

	/**
	 * FILLING → DISCARDING: the fill failed, but its slots may still be written. They stay taken, and the key stays
	 * known so that nobody fills it meanwhile. Ends all claims. @throws ResidencyStateError
	 */
	discardFill(residency: Residency): void {
		this.#enter("discardFill");
		this.#table.discardFill(residency as ResidencyRecord);
	}

	/** DISCARDING → FREED: it is proven that nothing will write to the slots. @throws ResidencyStateError */
	freeDiscarded(residency: Residency): void {
		this.#enter("freeDiscarded");
		this.#table.freeDiscarded(residency as ResidencyRecord);
	}

	/** Adds a claim and counts as an access. @throws ClaimError unless FILLING or READY. */
	claim(residency: Residency): void {
		this.#enter("claim");
		this.#table.claim(residency as ResidencyRecord, this.#clock.now());
	}

	/** Ends a claim. A retiring block goes with its last one. @throws ClaimError when there is none to end. */
	unclaim(residency: Residency): void {
		this.#enter("unclaim");
		this.#table.unclaim(residency as ResidencyRecord);
	}

	/** Counts an access that takes no claim. */
	touch(residency: Residency): void {
		this.#enter("touch");
		this.#table.touch(residency as ResidencyRecord, this.#clock.now());
	}

	/** Removes a ready block at its last unclaim, or now when it has no claim. False when it is not READY. */
	retire(residency: Residency): boolean {
		this.#enter("retire");
		return this.#table.retire(residency as ResidencyRecord);
	}

	/** Lets a retiring block stay. False when it was not retiring (any more). */
	cancelRetire(residency: Residency): boolean {
		this.#enter("cancelRetire");
		return this.#table.cancelRetire(residency as ResidencyRecord);
	}

	/** Removes a ready block without claims now. False, and no change, for any other. */
	drop(residency: Residency): boolean {
		this.#enter("drop");
		return this.#table.drop(residency as ResidencyRecord);
	}

	/**
	 * Hands claims already taken, one per entry, over to a new handle.
	 * @throws ClaimError when an entry is not READY or has no claim.
	 */
	issueHandle(residencies: readonly Residency[]): ReleaseHandle {
		for (const { state, claims } of residencies) {
			if (state !== "READY" || claims === 0)
				throw new ClaimError(
					"issueHandle",
					`a residency is ${state} with ${claims} claims`,
				);
		}
		return this.#handles.issue([...residencies] as ResidencyRecord[]);
	}

	/** Ends the claims of a handle. False when it is unknown or was released before. */
	releaseHandle(handle: bigint): boolean {
		this.#enter("releaseHandle");
		const records = this.#handles.take(handle);
		if (records === undefined) return false;
		for (const record of records) this.#table.unclaim(record);
		return true;
	}

	/** Where the pieces of a block are, in layout order. Only valid while the residency has slots. */
	pieces(residency: Residency): Piece[] {
		const { layoutInfo, slots } = residency as ResidencyRecord;
		return layoutInfo.pools.map((pool, i) => ({
			label: layoutInfo.labels[i] as string,
			pool: pool.name,
			region: pool.region,
			slot: slots[i] as number,
		}));
	}

	/** Views of the bytes of each piece, in layout order: no copy, valid as long as the caller holds a claim. */
	bytesOf(residency: Residency): Uint8Array[] {
		return this.pieces(residency).map(({ region, slot }) =>
			region.element(slot),
		);
	}

	/**
	 * Does what the owner is owed: policy callbacks, places in the eviction queue, waiting admissions, inventory events,
	 * the low watermark. Called at every API call and poll; a call from inside one of these callbacks does nothing.
	 */
	settle(): void {
		if (this.#settling || this.#policy.deciding) return;
		this.#settling = true;
		this.#woken = false;
		try {
			this.#catchUp();
			this.#waiters.serve();
			this.#catchUp();
			this.#inventory?.deliver(this.#closed);
			this.#watermark?.check();
		} finally {
			this.#settling = false;
		}
		// Callbacks may have caused more. It waits for the next call, so that this one ends.
		const short = this.#watermark?.isShortOfAny(this.#pools) ?? false;
		if (this.#effects.pending || this.#waiters.due || short) this.#wake();
	}

	/** Counts everything. Costs nothing but the objects of the answer. */
	stats(): ManagedCacheStats {
		return {
			pools: this.#pools.map((pool) => ({
				pool: pool.name,
				total: pool.total,
				free: pool.free,
				reclaimable: pool.reclaimable,
				claimed: pool.total - pool.available - pool.quarantined,
				quarantined: pool.quarantined,
			})),
			...this.#table.counts,
			handles: this.#handles.size,
			waiting: this.#waiters.size,
		};
	}

	/** For tests: every slot is in exactly one place and all counters agree. @throws InconsistentCacheError */
	assertConsistent(): void {
		assertConsistent(this.#pools, this.#table, this.#handles);
	}

	/**
	 * Ends all waits, delivers what the inventory is owed and releases the timers. Residencies, claims and handles stay as they
	 * are, so that readers can finish. Closing twice does nothing.
	 */
	close(): void {
		if (this.#closed) return;
		this.#closed = true;
		try {
			this.#waiters.close();
			this.settle();
		} finally {
			this.#inventory?.close();
		}
	}

	/** Tells the policy what happened and ranks what became evictable. */
	#catchUp(): void {
		this.#effects.apply();
		this.#table.queuePending((record) => this.#policy.evictionScore(record));
	}

	/** True while the policy decides: nothing may change then. */
	get deciding(): boolean {
		return this.#policy.deciding;
	}

	/** @throws ReentrantPolicyError when called by a policy in the middle of a decision. */
	#enter(operation: string): void {
		if (this.#policy.deciding) throw new ReentrantPolicyError(operation);
	}

	#wake(): void {
		if (this.#woken || this.#settling) return;
		this.#woken = true;
		this.#onOwnerWork?.();
	}
}

function checkRange(argument: string, value: number, max: number): void {
	if (typeof value === "number" && value >= 0 && value <= max) return;
	throw new InvalidArgumentError(
		"ManagedCache",
		argument,
		value,
		`a number from 0 to ${max}`,
	);
}
