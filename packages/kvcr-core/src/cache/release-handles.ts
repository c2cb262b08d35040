/** Release handles: the names under which owners hold claims. */
import { randomBytes } from "node:crypto";
import type { ReleaseHandle } from "../ports/index.js";
import type { ResidencyRecord } from "./residency.js";

/**
 * Handles count up from a random signed 64-bit number, so that one of an earlier instance is hardly ever valid here.
 * None is used twice, and none is zero.
 */
export class ReleaseHandles {
	readonly #held = new Map<bigint, readonly ResidencyRecord[]>();
	#last = BigInt.asIntN(64, randomBytes(8).readBigInt64LE());

	/** Number of handles that were not released. */
	get size(): number {
		return this.#held.size;
	}

	/** Names a set of claims. */
	issue(records: readonly ResidencyRecord[]): ReleaseHandle {
		this.#last = BigInt.asIntN(64, this.#last + 1n);
		if (this.#last === 0n) this.#last = 1n;
		this.#held.set(this.#last, records);
		return this.#last as ReleaseHandle;
	}

	/** Forgets a handle and returns what it named; `undefined` when it is unknown or was taken before. */
	take(handle: bigint): readonly ResidencyRecord[] | undefined {
		const records = this.#held.get(handle);
		if (records !== undefined) this.#held.delete(handle);
		return records;
	}

	/** The claims held under handles, for consistency checks. */
	values(): Iterable<readonly ResidencyRecord[]> {
		return this.#held.values();
	}
}
