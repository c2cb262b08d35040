/** What the conformance suites need from a test runner: vitest, jest, mocha and node:test all have it. */

/** The two functions a suite is written with. */
export interface SuiteRunner {
	/** Groups tests. */
	describe(name: string, body: () => void): unknown;
	/** One test. */
	it(name: string, body: () => Promise<void>): unknown;
}

/** Time suites allow for something that has to happen, in milliseconds. */
export const DEFAULT_PATIENCE_MS = 4_000;

/** Time suites watch for something that must not happen, in milliseconds. */
export const DEFAULT_QUIET_MS = 60;

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
	return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits until `check` holds; throws naming `what` when it does not within `patienceMs`. */
export async function eventually(
	what: string,
	patienceMs: number,
	check: () => boolean,
): Promise<void> {
	const end = performance.now() + patienceMs;
	while (!check()) {
		if (performance.now() > end)
			throw new Error(`waited ${patienceMs} ms in vain for: ${what}`);
		await pause(2);
	}
}

/** Rejects naming `what` when `promise` takes longer than `patienceMs`. */
export async function within<T>(
	what: string,
	patienceMs: number,
	promise: Promise<T>,
): Promise<T> {
	let timer: ReturnType<typeof setTimeout> | undefined;
	try {
		return await Promise.race([
			promise,
			new Promise<never>((_resolve, reject) => {
				timer = setTimeout(
					() => reject(new Error(`${what} took longer than ${patienceMs} ms`)),
					patienceMs,
				);
			}),
		]);
	} finally {
		clearTimeout(timer);
	}
}

/** An object with a property `code` of the given value: how suites tell errors apart, whichever copy of a class threw. */
export function hasCode(code: string): (error: unknown) => true {
	return (error) => {
		const found = (error as { code?: unknown } | undefined)?.code;
		if (found === code) return true;
		throw new Error(
			`expected an error with code ${code}, got ${String(found)}: ${String(error)}`,
			{
				cause: error,
			},
		);
	};
}
