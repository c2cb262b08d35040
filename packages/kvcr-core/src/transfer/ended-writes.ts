/**
 * Operations that are over at their source, whether they were written or refused. A copy of the request that arrives later
 * must not be served: the target may use the memory for something else by now.
 *
 * The latest are known exactly, so that a copy is dropped in silence. Older ones are fenced instead, which refuses the copy:
 * just as safe, and bounded by the number of peers.
 */
import type { Incarnation, OpHandle } from "../ports/index.js";
import type { FenceTable } from "./fences.js";

/** Operations known exactly, of all peers together. */
const DEFAULT_LIMIT = 16_384;

/** What tells an operation from every other. */
export class WriteName {
	readonly agentName: string;
	readonly incarnation: Incarnation;
	readonly opHandle: OpHandle;
	/** All of it, to look it up by. */
	readonly text: string;

	constructor(agentName: string, incarnation: Incarnation, opHandle: OpHandle) {
		this.agentName = agentName;
		this.incarnation = incarnation;
		this.opHandle = opHandle;
		this.text = `${opHandle}:${incarnation}:${agentName}`;
	}
}

export class EndedWrites {
	readonly #fences: FenceTable;
	readonly #limit: number;
	readonly #ended = new Set<string>();
	/** The same in order of their end, around a ring. (The first of a large set is found slowly once many have come and gone.) */
	readonly #order: WriteName[] = [];
	/** The oldest, once the ring is full. */
	#at = 0;

	/** @param fences Takes over what is forgotten here. */
	constructor(fences: FenceTable, limit = DEFAULT_LIMIT) {
		this.#fences = fences;
		this.#limit = limit;
	}

	/** An operation is over, or will never begin. */
	add(name: WriteName): void {
		if (this.#ended.has(name.text)) return;
		this.#ended.add(name.text);
		const oldest = this.#order[this.#at];
		this.#order[this.#at] = name;
		this.#at = (this.#at + 1) % this.#limit;
		if (oldest === undefined) return;
		this.#ended.delete(oldest.text);
		this.#fences.fence(oldest.agentName, oldest.incarnation, oldest.opHandle);
	}

	/** True for an operation that is known to be over. */
	has(name: WriteName): boolean {
		return this.#ended.has(name.text);
	}
}
