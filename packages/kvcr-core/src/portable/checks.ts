/** Checks that every in-process agent makes before it posts a write or loads a peer. */
import {
	checkPairs,
	checkPayload,
	type PairVisitor,
} from "../ports/agent-checks.js";
import { InvalidMetadataError } from "../ports/errors.js";
import type {
	RegionDescriptor,
	WriteRequest,
} from "../ports/transfer-agent.js";
import { RegionMemory } from "./region-memory.js";

/** Largest notification payload, in bytes. */
export const MAX_NOTIFICATION_BYTES = 1 << 20;

/** Most pairs in one write. */
export const MAX_WRITE_PAIRS = 1 << 17;

/** Regions of the agents in this package. */
const isRegion = (value: unknown): value is RegionMemory =>
	value instanceof RegionMemory;

/**
 * Checks everything about a write but its remote handle, so that a write that throws has moved no byte. Its fields are read
 * once: they may be getters, with another answer the next time. For the same reason the caller looks again afterwards
 * whether the remote is current.
 * @param owns whether a region belongs to the calling agent
 * @param each told of every pair
 * @returns the notification
 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError
 */
export function checkWrite(
	operation: string,
	request: WriteRequest,
	remoteRegions: readonly RegionDescriptor[],
	owns: (region: RegionMemory) => boolean,
	each: PairVisitor<RegionMemory>,
): Uint8Array {
	const { pairs, notification } = request;
	checkPairs(
		operation,
		pairs,
		{ maxPairs: MAX_WRITE_PAIRS, remoteRegions, isRegion, owns },
		each,
	);
	checkPayload(operation, "notification", notification, MAX_NOTIFICATION_BYTES);
	return notification;
}

/** A region as metadata lists it. */
export interface MetadataRegion {
	readonly addr: bigint;
	readonly count: number;
	readonly size: number;
}

/**
 * Checks that every descriptor a peer sent names a region that its metadata lists. They are read once: they may have getters,
 * which run the caller's code, so that the caller looks again afterwards whether the agent is open.
 * @returns copies
 * @throws InvalidMetadataError
 */
export function checkCovered(
	operation: string,
	metadata: Uint8Array,
	regions: readonly RegionDescriptor[],
	listed: readonly MetadataRegion[],
): readonly RegionDescriptor[] {
	const refuse = (reason: string) =>
		new InvalidMetadataError(operation, metadata, reason);
	if (!Array.isArray(regions)) throw refuse("regions is not a list");
	const byAddr = new Map(listed.map((region) => [region.addr, region]));
	return Array.from(regions, (given: RegionDescriptor | undefined, i) => {
		const descriptor = { ...given } as RegionDescriptor;
		const { addr, stride, size, count } = descriptor;
		const known = byAddr.get(addr);
		const contiguous = stride === 0 || stride === size;
		if (
			known === undefined ||
			known.count !== count ||
			known.size !== size ||
			!contiguous
		)
			throw refuse(`it does not cover regions[${i}]`);
		return descriptor;
	});
}
