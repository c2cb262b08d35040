/**
 * Code of the caller that runs within ours: callbacks, loggers, what implements a port. What it throws, now or through a
 * promise that nobody waits for, is about itself alone.
 */
import type { Logger } from "./telemetry.js";

const nobody = (): void => {};

/**
 * Looks at what a callback returned. A promise that rejects, and that nobody else has, would end the process: its reason
 * goes to `failed` instead. Default: to nobody.
 */
export function disregard(
	returned: unknown,
	failed: (reason: unknown) => void = nobody,
): void {
	if (typeof returned !== "object" || returned === null) return;
	// Also what is like a promise: its `then` is code of the caller, and runs inside of this.
	new Promise((resolve) => resolve(returned)).catch(failed);
}

/** Calls it; `failed` is told when it throws, or when the promise it returns is rejected. Default: nobody is. */
export function callOut(
	code: () => unknown,
	failed: (reason: unknown) => void = nobody,
): void {
	try {
		disregard(code(), failed);
	} catch (error) {
		failed(error);
	}
}

/** A logger that cannot throw: there is nowhere left to report a failing reporter to. */
export function guardedLogger(logger: Logger): Logger {
	return {
		debug: (fields, text) => callOut(() => logger.debug(fields, text)),
		info: (fields, text) => callOut(() => logger.info(fields, text)),
		warn: (fields, text) => callOut(() => logger.warn(fields, text)),
		error: (fields, text) => callOut(() => logger.error(fields, text)),
	};
}
