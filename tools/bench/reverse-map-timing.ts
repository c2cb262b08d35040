/**
 * Time a piece of work takes on a machine that may not be idle: the smaller of the time that passed and the processor
 * time this process used, all its threads together. Preemption lengthens only the one, helper threads only the other.
 */
export function stopwatch(): () => number {
	const start = performance.now();
	const cpu = process.cpuUsage();
	return () => {
		const passed = performance.now() - start;
		const { user, system } = process.cpuUsage(cpu);
		return Math.min(passed, (user + system) / 1000);
	};
}

/** Nanoseconds per call of a body that makes `calls` of them. */
export function nsPer(calls: number, body: () => void): number {
	const elapsed = stopwatch();
	body();
	return (elapsed() / calls) * 1e6;
}

/** The best of three. */
export function best(calls: number, body: () => void): number {
	return Math.min(nsPer(calls, body), nsPer(calls, body), nsPer(calls, body));
}
