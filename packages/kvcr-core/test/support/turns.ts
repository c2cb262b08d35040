/**
 * How long the pieces of work of an instance hold the event loop up: every message, timer, wake-up and poll on its own. Processor
 * time is taken, because on a busy machine the wall clock measures the others; collection and compilation count as well.
 */
export class Turns {
	readonly #times: number[] = [];

	/** Runs one piece of work. */
	run<T>(work: () => T): T {
		const before = cpuMs();
		try {
			return work();
		} finally {
			this.#times.push(cpuMs() - before);
		}
	}

	get count(): number {
		return this.#times.length;
	}

	/** Forgets what was measured so far. */
	clear(): void {
		this.#times.length = 0;
	}

	/** The longest piece, in milliseconds, apart from a share of outliers that code seen for the first time accounts for. */
	longest(apart = 0): number {
		const sorted = [...this.#times].sort((a, b) => b - a);
		return sorted[Math.floor(sorted.length * apart)] ?? 0;
	}
}

function cpuMs(): number {
	const { user, system } = process.cpuUsage();
	return (user + system) / 1000;
}
