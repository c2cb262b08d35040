/** Checking and packing of writes. */
import { checkPairs, type WriteRequest } from "kvcr-core";
import { NixlRegion } from "./region.js";
import type { NixlRemote } from "./remotes.js";

/** Largest notification payload, in bytes: UCX sends it eagerly, out of bounded buffers. */
export const MAX_NOTIFICATION_BYTES = 1 << 20;

/** Most pairs in one write. */
export const MAX_WRITE_PAIRS = 1 << 20;

/** Pairs in the addon's form, and the regions they read. */
export interface PackedPairs {
	/** Four per pair; there may be more behind them. */
	readonly numbers: Float64Array;
	/** Pairs. */
	readonly count: number;
	/** The distinct regions. */
	readonly regions: ReadonlySet<NixlRegion>;
}

/** Turns the pairs of writes into the addon's form, in one buffer that is used again and again. */
export class PairPacker {
	#spare: Float64Array | undefined;

	/**
	 * Checks every pair and packs it. The numbers are good until the next call.
	 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError
	 */
	pack(
		operation: string,
		pairs: WriteRequest["pairs"],
		remote: NixlRemote,
		owns: (region: NixlRegion) => boolean,
	): PackedPairs {
		let numbers = this.#spare ?? new Float64Array(4 * 64);
		// A pair may have getters, and they may write: what they pack goes elsewhere.
		this.#spare = undefined;
		let count = 0;
		const regions = checkPairs(
			operation,
			pairs,
			{
				maxPairs: MAX_WRITE_PAIRS,
				remoteRegions: remote.regions,
				isRegion: NixlRegion.is,
				owns,
			},
			(index, region, element, remoteRegion, remoteElement) => {
				const at = index * 4;
				if (at === numbers.length) numbers = twice(numbers);
				numbers[at] = region.id;
				numbers[at + 1] = element;
				numbers[at + 2] = remoteRegion;
				numbers[at + 3] = remoteElement;
				count = index + 1;
			},
		);
		this.#spare = numbers;
		return { numbers, count, regions };
	}
}

function twice(numbers: Float64Array): Float64Array {
	const larger = new Float64Array(numbers.length * 2);
	larger.set(numbers);
	return larger;
}
