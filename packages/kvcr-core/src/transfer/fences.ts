/**
 * Fences: an operation that its target has given up on must never be written, even if its `start_write` arrives after the
 * probe that asked about it. A target hands out handles in one direction and sends them in that order, so one watermark
 * per direction covers every operation a probe has ever named: whatever arrives at or below it is late. Refusing is
 * always safe, hence the memory is bounded by the number of peers, not by the number of operations.
 */
import type { Incarnation, OpHandle } from "../ports/index.js";

interface Watermarks {
	/** Highest fenced positive handle. */
	highest: bigint;
	/** Lowest fenced negative handle. */
	lowest: bigint;
}

export class FenceTable {
	readonly #limit: number;
	/** In order of last use. */
	readonly #byPeer = new Map<string, Watermarks>();

	/** @param limit Peers remembered; the longest unused is forgotten first. */
	constructor(limit: number) {
		this.#limit = limit;
	}

	get size(): number {
		return this.#byPeer.size;
	}

	/** Fences an operation of one incarnation of an agent. */
	fence(agentName: string, incarnation: Incarnation, handle: OpHandle): void {
		const peer = fenceKey(agentName, incarnation);
		const marks = this.#byPeer.get(peer) ?? { highest: 0n, lowest: 0n };
		if (handle > marks.highest) marks.highest = handle;
		if (handle < marks.lowest) marks.lowest = handle;
		this.#byPeer.delete(peer);
		this.#byPeer.set(peer, marks);
		if (this.#byPeer.size <= this.#limit) return;
		const oldest = this.#byPeer.keys().next();
		if (!oldest.done) this.#byPeer.delete(oldest.value);
	}

	/** True for an operation that must not be written any more. */
	isFenced(
		agentName: string,
		incarnation: Incarnation,
		handle: OpHandle,
	): boolean {
		const marks = this.#byPeer.get(fenceKey(agentName, incarnation));
		if (marks === undefined) return false;
		return handle >= 0n
			? handle <= marks.highest && marks.highest > 0n
			: handle >= marks.lowest;
	}

	/** Forgets an incarnation that is known to be gone. */
	forget(agentName: string, incarnation: Incarnation): void {
		this.#byPeer.delete(fenceKey(agentName, incarnation));
	}
}

function fenceKey(agentName: string, incarnation: Incarnation): string {
	return `${incarnation}:${agentName}`;
}
