/** Waiting with a limit. */
import type { Clock } from "kvcr-core";

/** What {@link within} gives when the time is up. */
export const LATE = Symbol("late");

/** The promise's result, or {@link LATE} after `ms` milliseconds. The timer is released either way. */
export async function within<T>(
	clock: Clock,
	ms: number,
	promise: Promise<T>,
): Promise<T | typeof LATE> {
	let timer = { cancel: () => {} };
	const late = new Promise<typeof LATE>((resolve) => {
		timer = clock.schedule(ms, () => resolve(LATE));
	});
	try {
		return await Promise.race([promise, late]);
	} finally {
		timer.cancel();
	}
}
