/** Code of the caller that is only told something: whatever it does, nothing here turns out differently. */
import type { Logger } from "kvcr-core";

/** Calls it. What it throws, and what a promise it returns is rejected with, is nobody's. */
export function tell(call: () => unknown): void {
	try {
		disregard(call());
	} catch {
		// There is nobody left to tell.
	}
}

/** Takes note that nobody waits for a value, which may be a promise: a rejection must not end the process. */
export function disregard(value: unknown): void {
	if (typeof value !== "object" || value === null) return;
	new Promise((resolve) => resolve(value)).catch(() => {});
}

/** A logger that cannot throw. */
export function guardedLogger(logger: Logger): Logger {
	return {
		debug: (fields, text) => tell(() => logger.debug(fields, text)),
		info: (fields, text) => tell(() => logger.info(fields, text)),
		warn: (fields, text) => tell(() => logger.warn(fields, text)),
		error: (fields, text) => tell(() => logger.error(fields, text)),
	};
}
