import {
	type BlockMeta,
	InvalidArgumentError,
	keyText,
} from "../../ports/index.js";
import { BuiltInPolicy } from "./built-in-policy.js";
import { FrequencySketch } from "./frequency-sketch.js";

/** Settings of {@link FrequencyPolicy}. */
export interface FrequencyPolicyOptions {
	/**
	 * About how many blocks managed G2 holds; sizes the memory of past accesses, 32 to 64 bytes per block.
	 * @default 65536
	 */
	readonly expectedBlocks?: number;
}

/** Head start of a block per doubling of its accesses, in turnover times. Chosen from 1 to 2 on variants of the bench's trace. */
const HEAD_START = 1.5;
/** Weight of a new sample in the moving average of the turnover time. */
const SMOOTHING = 0.01;
/** Evictions, in multiples of the blocks held, after which past accesses count half; sooner when the sketch is small. */
const AGING_TURNOVERS = 16;
/** Counters of the sketch per expected block. */
const SKETCH_FACTOR = 8;

/**
 * Weighs how often against how recently, for prefixes that many requests share.
 *
 * The score is the time of the last access plus a head start that grows with the logarithm of the access count. This is
 * the shape that an exponentially decaying count takes when only the order matters, as in LRFU (Lee et al.: "LRFU: A
 * Spectrum of Policies that Subsumes the Least Recently Used and Least Frequently Used Policies", IEEE Transactions on
 * Computers 50(12), 2001): it needs no rescoring as time goes by. The unit of the head start is the time an unused block
 * survives, measured as blocks leave, so there is nothing to tune: a block used once more than another outlives it by
 * about one turnover. Accesses before an eviction are remembered in an aging sketch as in TinyLFU, so a shared prefix
 * that was pushed out by a burst of one-off blocks does not start from nothing.
 */
export class FrequencyPolicy extends BuiltInPolicy {
	readonly #history: FrequencySketch;
	#resident = 0;
	/** Latest access seen, in place of a clock. */
	#latest = Number.NEGATIVE_INFINITY;
	/** How long a block that nobody uses stays, in milliseconds. */
	#turnover = 0;

	/** @throws InvalidArgumentError when `expectedBlocks` is not an integer from 1 to 2^24. */
	constructor(options: FrequencyPolicyOptions = {}) {
		super();
		const expected = options.expectedBlocks ?? 65_536;
		if (!Number.isInteger(expected) || expected < 1 || expected > 2 ** 24) {
			throw new InvalidArgumentError(
				"FrequencyPolicy",
				"expectedBlocks",
				expected,
				"an integer from 1 to 2^24",
			);
		}
		this.#history = new FrequencySketch(expected * SKETCH_FACTOR);
	}

	override evictionScore(meta: BlockMeta): number {
		if (meta.lastAccess > this.#latest) this.#latest = meta.lastAccess;
		const accesses = meta.accessCount + this.#history.estimate(textOf(meta));
		return (
			meta.lastAccess + HEAD_START * this.#turnover * Math.log2(1 + accesses)
		);
	}

	/** One more block is resident. */
	onIngest(_meta: BlockMeta): void {
		this.#resident += 1;
	}

	/** Learns from a block that nobody wanted again how long blocks stay. */
	onRemove(meta: BlockMeta): void {
		if (meta.accessCount === 0 && this.#latest >= meta.lastAccess) {
			const stayed = this.#latest - meta.lastAccess;
			const weight = this.#turnover === 0 ? 1 : SMOOTHING;
			this.#turnover += weight * (stayed - this.#turnover);
		}
		// The admission itself is a use: a block that comes a second time is shared.
		this.#history.add(textOf(meta), 1 + meta.accessCount);
		const memory = Math.min(
			this.#history.width / 2,
			AGING_TURNOVERS * this.#resident,
		);
		this.#history.age(1 / Math.max(1, memory));
		this.#resident = Math.max(0, this.#resident - 1);
	}
}

/** Managed G2 shows policies its own records, which have the text of the key at hand; others make it from the bytes. */
function textOf(meta: BlockMeta): string {
	return (meta as { readonly keyText?: string }).keyText ?? keyText(meta.key);
}
