/** Checking and packing of writes. */
import {
	ElementOutOfRangeError,
	InvalidArgumentError,
	RegionReleasedError,
	type WriteRequest,
} from "kvcr-core";
import { NixlRegion } from "./region.js";
import type { NixlRemote } from "./remotes.js";

/** Largest notification payload, in bytes: UCX sends it eagerly, out of bounded buffers. */
export const MAX_NOTIFICATION_BYTES = 1 << 20;

/** Most pairs in one write. */
export const MAX_WRITE_PAIRS = 1 << 20;

/** Turns the pairs of writes into the addon's form, in one buffer that is used again and again. */
export class PairPacker {
	#numbers = new Float64Array(4 * 64);

	/** The numbers of the last `pack`, four per pair. */
	get numbers(): Float64Array {
		return this.#numbers;
	}

	/**
	 * Checks every pair and packs it; returns the distinct regions, of which each is usually there once.
	 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError
	 */
	pack(
		operation: string,
		pairs: WriteRequest["pairs"],
		remote: NixlRemote,
		owns: (region: NixlRegion) => boolean,
	): NixlRegion[] {
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
		if (this.#numbers.length < pairs.length * 4)
			this.#numbers = new Float64Array(pairs.length * 8);
		const numbers = this.#numbers;
		const regions = new Set<NixlRegion>();
		let last: NixlRegion | undefined;
		for (let i = 0; i < pairs.length; i += 1) {
			const pair = pairs[i] as WriteRequest["pairs"][number];
			const region = pair?.region as unknown;
			if (region !== last || last === undefined) {
				last = checkRegion(operation, i, region, owns);
				regions.add(last);
			}
			checkElement(operation, last.label, pair.element, last.elementCount);
			const target = Number.isInteger(pair.remoteRegion)
				? remote.regions[pair.remoteRegion]
				: undefined;
			if (target === undefined) {
				throw new InvalidArgumentError(
					operation,
					`pairs[${i}].remoteRegion`,
					pair.remoteRegion,
					`an index into the ${remote.regions.length} regions of the remote`,
				);
			}
			checkElement(operation, target.label, pair.remoteElement, target.count);
			if (target.size !== last.elementBytes) {
				throw new InvalidArgumentError(
					operation,
					`pairs[${i}]`,
					last.elementBytes,
					`two elements of one size (the remote's has ${target.size} bytes)`,
				);
			}
			const at = i * 4;
			numbers[at] = last.id;
			numbers[at + 1] = pair.element;
			numbers[at + 2] = pair.remoteRegion;
			numbers[at + 3] = pair.remoteElement;
		}
		return [...regions];
	}
}

/** @throws InvalidArgumentError */
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

function checkRegion(
	operation: string,
	index: number,
	region: unknown,
	owns: (region: NixlRegion) => boolean,
): NixlRegion {
	if (NixlRegion.is(region)) {
		// Released first: such a region belongs to nobody any more, and that is what the caller should hear.
		if (region.released) throw new RegionReleasedError(operation, region.label);
		if (owns(region)) return region;
	}
	throw new InvalidArgumentError(
		operation,
		`pairs[${index}].region`,
		(region as { label?: unknown } | null | undefined)?.label,
		"a region that this agent made",
	);
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
