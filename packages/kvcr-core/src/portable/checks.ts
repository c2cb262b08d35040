/** Checks that every in-process agent makes before it posts a write or loads a peer. */
import {
	ElementOutOfRangeError,
	InvalidArgumentError,
	InvalidMetadataError,
	RegionReleasedError,
} from "../ports/errors.js";
import type {
	RegionDescriptor,
	WriteRequest,
} from "../ports/transfer-agent.js";
import { RegionMemory } from "./region-memory.js";

/** Largest notification payload, in bytes. */
export const MAX_NOTIFICATION_BYTES = 1 << 20;

/** Most pairs in one write. */
export const MAX_WRITE_PAIRS = 1 << 17;

/**
 * Checks that an argument can have fields at all.
 * @throws InvalidArgumentError
 */
export function checkObject(
	operation: string,
	argument: string,
	value: unknown,
): void {
	if (typeof value === "object" && value !== null) return;
	throw new InvalidArgumentError(operation, argument, value, "an object");
}

/**
 * Checks everything about a write but its remote handle, so that a write that throws has moved no byte.
 * @param owns whether a region belongs to the calling agent
 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError
 */
export function checkWrite(
	operation: string,
	request: WriteRequest,
	remoteRegions: readonly RegionDescriptor[],
	owns: (region: RegionMemory) => boolean,
): void {
	const { pairs } = request;
	if (
		!Array.isArray(pairs) ||
		pairs.length === 0 ||
		pairs.length > MAX_WRITE_PAIRS
	) {
		throw new InvalidArgumentError(
			operation,
			"pairs",
			pairs,
			`a list of 1 to ${MAX_WRITE_PAIRS} pairs`,
		);
	}
	checkPayload(operation, "notification", request.notification);
	for (let i = 0; i < pairs.length; i += 1) {
		const pair = pairs[i] as WriteRequest["pairs"][number];
		checkObject(operation, `pairs[${i}]`, pair);
		const { region } = pair;
		// Released first: a released region belongs to nobody any more, and the caller should learn which of both it is.
		if (region instanceof RegionMemory && region.released)
			throw new RegionReleasedError(operation, region.label);
		if (!(region instanceof RegionMemory) || !owns(region)) {
			throw new InvalidArgumentError(
				operation,
				`pairs[${i}].region`,
				(region as { label?: unknown } | undefined)?.label,
				"a region that this agent created",
			);
		}
		checkElement(operation, region.label, pair.element, region.elementCount);
		const remote = Number.isInteger(pair.remoteRegion)
			? remoteRegions[pair.remoteRegion]
			: undefined;
		if (remote === undefined) {
			throw new InvalidArgumentError(
				operation,
				`pairs[${i}].remoteRegion`,
				pair.remoteRegion,
				`an index into the ${remoteRegions.length} regions of the remote`,
			);
		}
		checkElement(operation, remote.label, pair.remoteElement, remote.count);
		if (remote.size !== region.elementBytes) {
			throw new InvalidArgumentError(
				operation,
				`pairs[${i}]`,
				region.elementBytes,
				`two elements of the same size (the remote element has ${remote.size} bytes)`,
			);
		}
	}
}

/**
 * Checks a notification payload.
 * @throws InvalidArgumentError
 */
export function checkPayload(
	operation: string,
	argument: string,
	payload: unknown,
): void {
	if (
		!(payload instanceof Uint8Array) ||
		payload.byteLength > MAX_NOTIFICATION_BYTES
	) {
		throw new InvalidArgumentError(
			operation,
			argument,
			payload,
			`a Uint8Array of at most ${MAX_NOTIFICATION_BYTES} bytes`,
		);
	}
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

function checkElement(
	operation: string,
	label: string,
	element: number,
	count: number,
): void {
	if (!Number.isInteger(element) || element < 0 || element >= count)
		throw new ElementOutOfRangeError(operation, label, element, count);
}
