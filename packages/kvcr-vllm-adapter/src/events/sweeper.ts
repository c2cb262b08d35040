/**
 * Takes retired tiers out of a map, a little at a time, between other work, and tells those who wait for a tier to come
 * free. It goes by itself in a process that does nothing else, which it does not keep alive.
 */
import { type Clock, systemClock } from "kvcr-core";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";

/** Keys visited in one go: about a millisecond; and when somebody waits, who is held back meanwhile. */
const SWEEP_KEYS = 2000;
const URGENT_SWEEP_KEYS = 10_000;
/** Pause after a slice that failed, in milliseconds. */
const RETRY_MS = 1000;

/** See the comment at the top of this file. */
export class Sweeper {
	readonly #map: ReverseHashMap;
	readonly #clock: Clock;
	readonly #failed: (error: unknown) => void;
	#waiting: (() => void)[] = [];
	#scheduled = false;

	/**
	 * @param clock whose timers do not keep the process alive. @default the system's
	 * @param failed told about a slice or a waiter that threw; must not throw. The slice is tried again later
	 */
	constructor(
		map: ReverseHashMap,
		clock: Clock = systemClock,
		failed: (error: unknown) => void = () => {},
	) {
		this.#map = map;
		this.#clock = clock;
		this.#failed = failed;
	}

	/** Begins a sweep, or goes on with the one under way. Never sweeps before it returns. */
	start(): void {
		this.#schedule(0);
	}

	/**
	 * Calls `freed` once at the end of the sweep under way, with which tiers come free. False where no tier is retired: then
	 * nothing is going to come free, and `freed` is not called.
	 */
	wait(freed: () => void): boolean {
		// Somebody else may have retired tiers of the same map.
		if (!this.#scheduled && !this.#map.sweep(SWEEP_KEYS)) return false;
		this.#schedule(0);
		this.#waiting.push(freed);
		return true;
	}

	/** What went wrong elsewhere and is nobody's batch. */
	report(error: unknown): void {
		this.#failed(error);
	}

	#schedule(delayMs: number): void {
		if (this.#scheduled) return;
		this.#scheduled = true;
		this.#clock.schedule(delayMs, () => this.#run());
	}

	/** Called by a timer: whatever escaped from here would end the process. */
	#run(): void {
		this.#scheduled = false;
		try {
			const keys = this.#waiting.length > 0 ? URGENT_SWEEP_KEYS : SWEEP_KEYS;
			if (this.#map.sweep(keys)) {
				this.#schedule(0);
				return;
			}
		} catch (error) {
			this.#failed(error);
			this.#schedule(RETRY_MS);
			return;
		}
		const waiting = this.#waiting;
		this.#waiting = [];
		for (const freed of waiting)
			try {
				freed();
			} catch (error) {
				this.#failed(error);
			}
	}
}
