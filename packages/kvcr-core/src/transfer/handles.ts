/**
 * Operation handles (wire field `op_handle`, signed 64-bit). They start at the wall clock in nanoseconds, so that a handle
 * of an earlier process is never given out again, and move one way only: fences rely on later handles being further
 * from zero. Fills count down from zero's negative side, everything else counts up.
 */
import type { OpHandle } from "../ports/index.js";

export class HandleSequence {
	#next: bigint;
	#nextFill: bigint;

	/** @param seed Start of both sequences; the default is the wall clock in nanoseconds. */
	constructor(seed: bigint = BigInt(Date.now()) * 1_000_000n) {
		this.#next = seed;
		this.#nextFill = -seed;
	}

	/** A handle for an owner's operation or a delivery. Positive. */
	operation(): OpHandle {
		this.#next += 1n;
		return this.#next as OpHandle;
	}

	/** A handle for a fill of managed memory. Negative. */
	fill(): OpHandle {
		this.#nextFill -= 1n;
		return this.#nextFill as OpHandle;
	}
}
