/** Where figures and log lines go. */

/**
 * Receives figures as they happen. Names and label values form a small, fixed set (see `telemetry/` in core), so an
 * implementation may turn each combination into a time series.
 */
export interface TelemetryStats {
	/** Adds to a monotonic counter. */
	increaseCounter(
		name: string,
		value: number,
		labels: Readonly<Record<string, string>>,
	): void;
	/** Records one observation, in seconds or bytes as the name says. */
	observeHistogram(
		name: string,
		value: number,
		labels: Readonly<Record<string, string>>,
	): void;
}

/** A structured logger of the shape pino and similar libraries have. */
export interface Logger {
	/** What is of use to nobody but developers. */
	debug(fields: object, message: string): void;
	/** What operators may want to know. */
	info(fields: object, message: string): void;
	/** What works less well than it should. */
	warn(fields: object, message: string): void;
	/** What somebody has to look at. */
	error(fields: object, message: string): void;
}

/** Logs warnings and errors to the console as one line each, drops the rest. */
export const consoleLogger: Logger = {
	debug: () => {},
	info: () => {},
	warn: (fields, message) => console.warn(`kvcr: ${message}`, fields),
	error: (fields, message) => console.error(`kvcr: ${message}`, fields),
};

/** Drops everything. */
export const silentLogger: Logger = {
	debug: () => {},
	info: () => {},
	warn: () => {},
	error: () => {},
};
