/**
 * What an open agent does when its process, or its worker thread, ends by itself, by `process.exit` or by an exception that
 * nobody caught: it finishes its writes, in bounded time. One listener serves all agents.
 */

/** Time that all agents together have, in milliseconds. */
const PATIENCE_MS = 1_000;

/** Something that takes at most so many milliseconds to end. */
export interface Ending {
	endWithin(patienceMs: number): void;
}

const open = new Set<Ending>();

function endAll(): void {
	const until = performance.now() + PATIENCE_MS;
	for (const one of open)
		one.endWithin(Math.max(0, Math.floor(until - performance.now())));
}

/** Ends with the process from now on. */
export function add(ending: Ending): void {
	if (open.size === 0) process.on("exit", endAll);
	open.add(ending);
}

/** Has ended by itself. */
export function remove(ending: Ending): void {
	if (open.delete(ending) && open.size === 0)
		process.removeListener("exit", endAll);
}
