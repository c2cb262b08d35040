/** Checks that every slot is in exactly one place and every counter agrees with what it counts. For tests. */
import { KvcrError } from "../ports/index.js";
import type { ReleaseHandles } from "./release-handles.js";
import type { ResidencyRecord } from "./residency.js";
import type { ResidencyTable } from "./residency-table.js";
import type { SlotPool } from "./slot-pool.js";

/** Managed G2 contradicts itself: a defect of this library. */
export class InconsistentCacheError extends KvcrError {
	constructor(problem: string) {
		super("ERR_KVCR_INCONSISTENT_CACHE", `assertConsistent: ${problem}`);
	}
}

/** @throws InconsistentCacheError that names the first contradiction. Takes time proportional to all slots. */
export function assertConsistent(
	pools: readonly SlotPool[],
	table: ResidencyTable,
	handles: ReleaseHandles,
): void {
	const users = pools.map(() => new Map<number, string>());
	for (const pool of pools) {
		for (const slot of pool.freeSlots())
			occupy(users, pool, slot, "the free list");
	}
	const counts = {
		filling: 0,
		ready: 0,
		discarding: 0,
		retiring: 0,
		claims: 0,
	};
	const reclaimable = pools.map(() => 0);
	const quarantined = pools.map(() => 0);
	const evictable = new Set<ResidencyRecord>();
	for (const record of table.records()) {
		const { layoutInfo, state, claims } = record;
		if (state === "READY") counts.ready += 1;
		else if (state === "FILLING") counts.filling += 1;
		else if (state === "DISCARDING") counts.discarding += 1;
		else
			throw new InconsistentCacheError(
				`a residency in state ${state} is still known`,
			);
		if (record.retiring) counts.retiring += 1;
		if (record.retiring && (state !== "READY" || claims === 0))
			throw new InconsistentCacheError(
				`a residency in state ${state} with ${claims} claims is retiring`,
			);
		if (state === "FILLING" && claims < 1)
			throw new InconsistentCacheError("a fill has no claim");
		if (state === "DISCARDING" && claims > 0)
			throw new InconsistentCacheError("a discarded fill has claims");
		counts.claims += claims;
		const free = state === "READY" && claims === 0;
		if (free) evictable.add(record);
		layoutInfo.pools.forEach((pool, piece) => {
			occupy(
				users,
				pool,
				record.slots[piece] as number,
				`block ${JSON.stringify(record.keyText)}`,
			);
			if (free)
				reclaimable[pool.index] = (reclaimable[pool.index] as number) + 1;
			if (state === "DISCARDING")
				quarantined[pool.index] = (quarantined[pool.index] as number) + 1;
		});
	}
	for (const pool of pools) {
		equal(`slots of pool ${pool.name}`, users[pool.index]?.size, pool.total);
		equal(
			`reclaimable slots of pool ${pool.name}`,
			pool.reclaimable,
			reclaimable[pool.index],
		);
		equal(
			`quarantined slots of pool ${pool.name}`,
			pool.quarantined,
			quarantined[pool.index],
		);
	}
	for (const name of Object.keys(counts) as (keyof typeof counts)[])
		equal(`count of ${name}`, table.counts[name], counts[name]);
	equal(
		"evictable blocks",
		table.queue.size + table.pendingCount,
		evictable.size,
	);
	for (const record of table.queue.toArray()) {
		if (!evictable.has(record))
			throw new InconsistentCacheError(
				`a residency in state ${record.state} is in the eviction queue`,
			);
	}
	checkHandles(handles);
}

function checkHandles(handles: ReleaseHandles): void {
	const held = new Map<ResidencyRecord, number>();
	for (const records of handles.values())
		for (const record of records) held.set(record, (held.get(record) ?? 0) + 1);
	for (const [record, claims] of held) {
		if (record.state !== "READY" || record.claims < claims) {
			throw new InconsistentCacheError(
				`handles hold ${claims} claims on a residency in state ${record.state} with ${record.claims}`,
			);
		}
	}
}

function occupy(
	users: readonly Map<number, string>[],
	pool: SlotPool,
	slot: number,
	user: string,
): void {
	const slots = users[pool.index] as Map<number, string>;
	const other = slots.get(slot);
	if (other !== undefined) {
		throw new InconsistentCacheError(
			`slot ${slot} of pool ${pool.name} is in ${other} and in ${user}`,
		);
	}
	slots.set(slot, user);
}

function equal(what: string, actual: unknown, expected: unknown): void {
	if (actual !== expected)
		throw new InconsistentCacheError(
			`${what}: ${String(actual)}, expected ${String(expected)}`,
		);
}
