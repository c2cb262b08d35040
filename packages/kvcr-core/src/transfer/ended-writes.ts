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
export interface WriteName {
	readonly agentName: string;
	readonly incarnation: Incarnation;
	readonly opHandle: OpHandle;
}

export class EndedWrites {
	readonly #fences: FenceTable;
	readonly #limit: number;
	/** In order of their end. */
	readonly #ended = new Map<string, WriteName>();

	/** @param fences Takes over what is forgotten here. */
	constructor(fences: FenceTable, limit = DEFAULT_LIMIT) {
		this.#fences = fences;
		this.#limit = limit;
	}

	/** An operation is over, or will never begin. */
	add(name: WriteName): void {
		this.#ended.set(writeKey(name), name);
		if (this.#ended.size <= this.#limit) return;
		const [oldest] = this.#ended;
		if (oldest === undefined) return;
		const [key, { agentName, incarnation, opHandle }] = oldest;
		this.#ended.delete(key);
		this.#fences.fence(agentName, incarnation, opHandle);
	}

	/** True for an operation that is known to be over. */
	has(name: WriteName): boolean {
		return this.#ended.has(writeKey(name));
	}
}

/** The name as text. */
export function writeKey(name: WriteName): string {
	return `${name.opHandle}:${name.incarnation}:${name.agentName}`;
}
