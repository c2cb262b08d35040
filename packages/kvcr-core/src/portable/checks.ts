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
 * Checks that every descriptor a peer sent names a region that its metadata lists.
 * @throws InvalidMetadataError
 */
export function checkCovered(
	operation: string,
	metadata: Uint8Array,
	regions: readonly RegionDescriptor[],
	listed: readonly MetadataRegion[],
): void {
	if (!Array.isArray(regions))
		throw new InvalidMetadataError(
			operation,
			metadata,
			"regions is not a list",
		);
	const byAddr = new Map(listed.map((region) => [region.addr, region]));
	regions.forEach((descriptor: RegionDescriptor, i) => {
		const known = byAddr.get(descriptor?.addr);
		const contiguous =
			descriptor?.stride === 0 || descriptor?.stride === descriptor?.size;
		if (
			known === undefined ||
			known.count !== descriptor.count ||
			known.size !== descriptor.size ||
			!contiguous
		) {
			throw new InvalidMetadataError(
				operation,
				metadata,
				`it does not cover regions[${i}]`,
			);
		}
	});
}
