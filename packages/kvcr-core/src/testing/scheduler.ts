/** How the in-memory doubles come back later: through Node's event loop, or through a test's clock. */
import type { Clock } from "../ports/clock.js";

/** Runs a task later, never inside the call. Tasks of equal delay run in the order they were given. */
export type Scheduler = (task: () => void, delayMs: number) => void;

/** Schedules on the clock when there is one (delay 0 runs at the next `advance`), else on the event loop. */
export function schedulerFor(clock: Clock | undefined): Scheduler {
	if (clock !== undefined)
		return (task, delayMs) => void clock.schedule(delayMs, task);
	return (task, delayMs) => {
		if (delayMs <= 0) setImmediate(task);
		else setTimeout(task, delayMs);
	};
}
