/** Tells a capacity manager, once per shortage, that a pool is running out of slots it could give. */
import { callOut } from "../ports/foreign.js";
import type { CapacityListener, Logger } from "../ports/index.js";
import type { SlotPool } from "./slot-pool.js";

/** Watches the free and reclaimable slots of every pool against one percentage. */
export class CapacityWatermark {
	readonly #listener: CapacityListener;
	readonly #logger: Logger;
	readonly #pools: readonly SlotPool[];
	/** Per pool: the slots it should have available, and whether the next shortage is reported. */
	readonly #low: readonly number[];
	readonly #armed: boolean[];
	#reported = false;

	/** @param percent Low watermark in percent of a pool's slots; 0 never fires. */
	constructor(
		pools: readonly SlotPool[],
		percent: number,
		listener: CapacityListener,
		logger: Logger,
	) {
		this.#pools = pools;
		this.#listener = listener;
		this.#logger = logger;
		this.#low = pools.map((pool) => Math.ceil((pool.total * percent) / 100));
		this.#armed = pools.map(() => true);
	}

	/** Whether {@link check} would report one of these pools. */
	isShortOfAny(pools: readonly SlotPool[]): boolean {
		for (const pool of pools) if (this.#isShort(pool)) return true;
		return false;
	}

	#isShort(pool: SlotPool): boolean {
		return (
			this.#armed[pool.index] === true &&
			pool.available < (this.#low[pool.index] as number)
		);
	}

	/** Reports pools that fell under the watermark since the last check, in one call; arms those that are above it. */
	check(): void {
		let needed: { pool: string; slots: number }[] | undefined;
		for (const pool of this.#pools) {
			const low = this.#low[pool.index] as number;
			if (this.#isShort(pool)) {
				this.#armed[pool.index] = false;
				needed ??= [];
				needed.push({ pool: pool.name, slots: low - pool.available });
			} else if (pool.available > low || pool.available === pool.total) {
				this.#armed[pool.index] = true;
			}
		}
		if (needed === undefined) return;
		const pools = needed;
		callOut(
			() => this.#listener(pools),
			(error) => this.#failed(error),
		);
	}

	#failed(error: unknown): void {
		if (this.#reported) return;
		this.#reported = true;
		this.#logger.warn(
			{ error },
			"capacity listener failed; further failures are not logged",
		);
	}
}
