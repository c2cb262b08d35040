/** Checking and packing of writes. */
import { checkPairs, type WriteRequest } from "kvcr-core";
import { NixlRegion } from "./region.js";
import type { NixlRemote } from "./remotes.js";

/** Largest notification payload, in bytes: UCX sends it eagerly, out of bounded buffers. */
export const MAX_NOTIFICATION_BYTES = 1 << 20;

/** Most pairs in one write. */
export const MAX_WRITE_PAIRS = 1 << 20;

/** Turns the pairs of writes into the addon's form, in one buffer that is used again and again. */
export class PairPacker {
	#numbers = new Float64Array(4 * 64);
	#count = 0;

	/** The numbers of the last `pack`, four per pair. */
	get numbers(): Float64Array {
		return this.#numbers;
	}

	/** Pairs in the last `pack`. */
	get count(): number {
		return this.#count;
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
		const regions = new Set<NixlRegion>();
		let last: NixlRegion | undefined;
		checkPairs(
			operation,
			pairs,
			{
				maxPairs: MAX_WRITE_PAIRS,
				remoteRegions: remote.regions,
				isRegion: NixlRegion.is,
				owns,
			},
			(index, region, element, remoteRegion, remoteElement) => {
				if (region !== last) {
					last = region;
					regions.add(region);
				}
				const at = index * 4;
				if (at === this.#numbers.length) this.#grow();
				this.#numbers[at] = region.id;
				this.#numbers[at + 1] = element;
				this.#numbers[at + 2] = remoteRegion;
				this.#numbers[at + 3] = remoteElement;
				this.#count = index + 1;
			},
		);
		return [...regions];
	}

	#grow(): void {
		const larger = new Float64Array(this.#numbers.length * 2);
		larger.set(this.#numbers);
		this.#numbers = larger;
	}
}
