/**
 * Notices that this process was not running for longer than an operation may take (stopped, swapped out, blocked). What
 * piled up meanwhile carries deadlines that have long passed at the peers, so no new write is accepted from it.
 *
 * The monitor ticks only while there is traffic, plus a short while after: an idle instance has no timer.
 */
import type { Clock, Timer } from "../ports/index.js";

/** Ticks without traffic after which the monitor goes to sleep. */
const QUIET_TICKS = 20;

export class StallMonitor {
	readonly #clock: Clock;
	readonly #limitMs: number;
	readonly #onStall: (gapMs: number) => void;
	#timer: Timer | undefined;
	#awake = false;
	#lastSeen = 0;
	#quietTicks = 0;
	#refusingUntil = Number.NEGATIVE_INFINITY;

	/** @param limitMs Longest gap that is no stall: the operation timeout. */
	constructor(clock: Clock, limitMs: number, onStall: (gapMs: number) => void) {
		this.#clock = clock;
		this.#limitMs = limitMs;
		this.#onStall = onStall;
	}

	/** True while what arrives may date from before a stall. */
	get stalled(): boolean {
		this.#check();
		return this.#clock.now() < this.#refusingUntil;
	}

	/** Notes traffic: the monitor is awake from now on. Checks for a gap before anything of the traffic is acted upon. */
	traffic(): void {
		this.#quietTicks = 0;
		this.#check();
		if (this.#timer === undefined) this.#arm();
		this.#awake = true;
	}

	/** Releases the timer. */
	close(): void {
		this.#timer?.cancel();
		this.#timer = undefined;
	}

	#arm(): void {
		this.#timer = this.#clock.schedule(this.#limitMs / 4, () => {
			this.#timer = undefined;
			this.#check();
			this.#quietTicks += 1;
			if (this.#quietTicks < QUIET_TICKS) this.#arm();
			else this.#awake = false;
		});
	}

	#check(): void {
		const now = this.#clock.now();
		const gap = now - this.#lastSeen;
		this.#lastSeen = now;
		// A sleeping monitor cannot tell idleness from a stall.
		if (!this.#awake || gap < this.#limitMs) return;
		// What queued up meanwhile is read within one operation timeout; after it, requests are fresh again.
		this.#refusingUntil = now + this.#limitMs;
		this.#onStall(gap);
	}
}
