/** Code of the caller that runs within ours: what it throws, now or through a promise, is about itself alone. */
import type { Logger } from "kvcr-core";

/** Calls it; `failed` is told when it throws, or when the promise it returns is rejected. */
export function callOut(
	code: () => unknown,
	failed: (reason: unknown) => void,
): void {
	try {
		const result = code();
		if (typeof result === "object" && result !== null)
			void Promise.resolve(result).catch(failed);
	} catch (error) {
		failed(error);
	}
}

/** A logger whose failures are nobody's: there is no place to report them to. */
export function guarded(logger: Logger): Logger {
	const level =
		(name: keyof Logger) =>
		(fields: object, message: string): void =>
			callOut(
				() => logger[name](fields, message),
				() => {},
			);
	return {
		debug: level("debug"),
		info: level("info"),
		warn: level("warn"),
		error: level("error"),
	};
}
