/** Tells a sender that floods from one that was unlucky once. */
import type { Clock } from "kvcr-core";

/** So many unwanted messages within this time, in milliseconds, are a flood. */
const FLOOD = { messages: 64, withinMs: 1_000 } as const;

/** Counts the unwanted messages of one sender. */
export class Excess {
	private since = Number.NEGATIVE_INFINITY;
	private count = 0;

	/** @param messages how many within a second are a flood */
	constructor(
		private readonly clock: Clock,
		private readonly messages: number = FLOOD.messages,
	) {}

	/** One more; true when they are a flood. */
	note(): boolean {
		const now = this.clock.now();
		if (now - this.since >= FLOOD.withinMs) {
			this.since = now;
			this.count = 0;
		}
		this.count++;
		return this.count >= this.messages;
	}
}
