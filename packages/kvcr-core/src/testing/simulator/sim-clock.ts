/** The clock of one simulated process: the world's time, but its timers stop while the process is stopped, and die with it. */
import type { Clock, Timer } from "../../ports/index.js";
import type { ManualClock } from "../manual-clock.js";

export class SimClock implements Clock {
	readonly #world: ManualClock;
	readonly #live = new Set<Timer>();
	#waiting: (() => void)[] = [];
	#state: "running" | "stopped" | "dead" = "running";

	constructor(world: ManualClock) {
		this.#world = world;
	}

	/** Timers armed. */
	get pending(): number {
		return this.#live.size;
	}

	get stopped(): boolean {
		return this.#state === "stopped";
	}

	now(): number {
		return this.#world.now();
	}

	schedule(delayMs: number, callback: () => void): Timer {
		if (this.#state === "dead") return { cancel: () => {} };
		const armed = this.#world.schedule(delayMs, () =>
			this.gate(() => {
				if (this.#live.delete(timer)) callback();
			}),
		);
		const timer: Timer = {
			cancel: () => {
				this.#live.delete(timer);
				armed.cancel();
			},
		};
		this.#live.add(timer);
		return timer;
	}

	/** Runs a task of the process now, once it goes on, or never. */
	gate(task: () => void): void {
		if (this.#state === "running") task();
		else if (this.#state === "stopped") this.#waiting.push(task);
	}

	/** The process is not scheduled any more (until `resume`). */
	stop(): void {
		if (this.#state === "running") this.#state = "stopped";
	}

	/** The process goes on: everything that waited happens now, in the order in which it came. */
	resume(): void {
		if (this.#state !== "stopped") return;
		this.#state = "running";
		for (const task of this.#waiting.splice(0)) this.gate(task);
	}

	/** The process is gone. */
	kill(): void {
		this.#state = "dead";
		this.#waiting = [];
		for (const timer of [...this.#live]) timer.cancel();
	}
}
