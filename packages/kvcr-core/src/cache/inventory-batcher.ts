/** Collects what came to and went from managed G2, and delivers it in few events. */
import { callOut } from "../ports/foreign.js";
import {
	type Clock,
	type InventorySink,
	keyFromText,
	type Logger,
	type Timer,
} from "../ports/index.js";

/** Keys of one event to be. */
interface Group {
	readonly removed: boolean;
	readonly texts: string[];
}

/** What the batcher needs. */
export interface InventoryBatcherOptions {
	readonly sink: InventorySink;
	/** Least time between the first change of a batch and its delivery, in milliseconds; 0 delivers at once. */
	readonly intervalMs: number;
	readonly clock: Clock;
	readonly logger: Logger;
	/** Called when a batch became due, so that somebody calls {@link InventoryBatcher.deliver}. */
	readonly onDue: () => void;
}

/**
 * Groups of alternating kind, delivered in order. A change goes into the earliest group of its kind that does not come
 * before an earlier change of the same key: few events, and per key the true order.
 */
export class InventoryBatcher {
	readonly #options: InventoryBatcherOptions;
	#groups: Group[] = [];
	/** Index of the group with the latest change of a key. */
	readonly #latest = new Map<string, number>();
	#dueAt = 0;
	#timer: Timer | undefined;
	#reported = false;

	constructor(options: InventoryBatcherOptions) {
		this.#options = options;
	}

	/** True when changes wait for delivery. */
	get pending(): boolean {
		return this.#groups.length > 0;
	}

	/** Notes that a block became available, or left. */
	record(keyText: string, removed: boolean): void {
		if (this.#groups.length === 0) this.#arm();
		let index = this.#latest.get(keyText) ?? 0;
		while (
			index < this.#groups.length &&
			this.#groups[index]?.removed !== removed
		)
			index += 1;
		const group = this.#groups[index] ?? { removed, texts: [] };
		this.#groups[index] = group;
		group.texts.push(keyText);
		this.#latest.set(keyText, index);
	}

	/** Delivers the batch when it is due, or whatever there is when `force` is set. */
	deliver(force: boolean): void {
		if (this.#groups.length === 0) return;
		if (
			!force &&
			this.#options.intervalMs > 0 &&
			this.#options.clock.now() < this.#dueAt
		)
			return;
		const groups = this.#groups;
		this.#groups = [];
		this.#latest.clear();
		this.#disarm();
		for (const { removed, texts } of groups) {
			const keys = texts.map(keyFromText);
			callOut(
				() => this.#options.sink({ keys, tier: "DRAM", removed }),
				(error) => this.#failed(error),
			);
		}
	}

	#failed(error: unknown): void {
		if (this.#reported) return;
		this.#reported = true;
		this.#options.logger.warn(
			{ error },
			"inventory sink failed; its event is lost and further failures are not logged",
		);
	}

	/** Releases the timer. */
	close(): void {
		this.#disarm();
	}

	#arm(): void {
		const { intervalMs, clock, onDue } = this.#options;
		if (intervalMs === 0) return;
		this.#dueAt = clock.now() + intervalMs;
		this.#timer = clock.schedule(intervalMs, onDue);
	}

	#disarm(): void {
		this.#timer?.cancel();
		this.#timer = undefined;
	}
}
