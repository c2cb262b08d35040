/** Options of a channel: their defaults and their checks. */
import {
	type Clock,
	checkObject,
	guardedLogger,
	InvalidArgumentError,
	type Logger,
	MAX_CONTROL_MESSAGE_BYTES,
	silentLogger,
	systemClock,
} from "kvcr-core";
import type { NatsConnectionOptions } from "./dial.js";
import { isNatsLike, type NatsLike } from "./nats-like.js";

/** Options of {@link NatsControlChannel}. Give `connection` or `connect`, not both; with neither, 127.0.0.1:4222 is used. */
export interface NatsControlChannelOptions {
	/**
	 * Name of this peer: 1 to 64 letters, digits, `-`, `_`. It must be unique below the prefix.
	 * @default a random name
	 */
	peer?: string;
	/**
	 * Subject prefix all peers of one cluster share: 1 to 8 such tokens joined by dots.
	 * @default "kvcr"
	 */
	prefix?: string;
	/** A connection of the caller (`@nats-io/transport-node`, or `nats` 2.x). It is used, and never closed. */
	connection?: NatsLike;
	/** How to connect: servers, TLS, credentials. Options of `connect` of `@nats-io/transport-node`. */
	connect?: NatsConnectionOptions;
	/**
	 * Time for `start` to connect and subscribe, in milliseconds.
	 * @default 5000
	 */
	connectTimeoutMs?: number;
	/**
	 * Most messages waiting for the server, connected or not.
	 * @default 4096
	 */
	maxQueuedMessages?: number;
	/**
	 * Most bytes waiting for the server, connected or not; at least 1 MiB.
	 * @default 33554432 (32 MiB)
	 */
	maxQueuedBytes?: number;
	/**
	 * Age at which a message still waiting for a connection is dropped, in milliseconds. Control messages carry relative
	 * deadlines, so very late ones only cause work.
	 * @default 10000
	 */
	maxQueuedMs?: number;
	/**
	 * Longest time `close` waits for queued messages to reach the server, in milliseconds; closing the connection may take
	 * as long again.
	 * @default 500
	 */
	drainTimeoutMs?: number;
	/**
	 * Interval of this peer's announcements in milliseconds, 100 to 600000; 0 turns them off, and the peer is then not
	 * seen by `watchPeers`.
	 * @default 5000
	 */
	announceIntervalMs?: number;
	/** @default silentLogger */
	logger?: Logger;
	/** @default systemClock */
	clock?: Clock;
}

const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

/** Options with every default filled in. */
export interface ResolvedOptions {
	readonly connectTimeoutMs: number;
	readonly maxQueuedMessages: number;
	readonly maxQueuedBytes: number;
	readonly maxQueuedMs: number;
	readonly drainTimeoutMs: number;
	readonly announceIntervalMs: number;
	readonly logger: Logger;
	readonly clock: Clock;
}

/**
 * Checks and completes the options that are plain figures.
 * @throws InvalidArgumentError
 */
export function resolveOptions(
	options: NatsControlChannelOptions,
	operation: string,
): ResolvedOptions {
	checkObject(operation, "options", options);
	if (options.connection !== undefined && options.connect !== undefined) {
		throw new InvalidArgumentError(
			operation,
			"connect",
			"(given)",
			"absent when connection is given",
		);
	}
	if (options.connection !== undefined && !isNatsLike(options.connection))
		throw new InvalidArgumentError(
			operation,
			"connection",
			options.connection,
			"a connection of a NATS client",
		);
	if (options.connect !== undefined)
		checkObject(operation, "connect", options.connect);
	const integer = (
		name: keyof NatsControlChannelOptions & string,
		fallback: number,
		least: number,
		most: number,
	): number =>
		boundedInteger(options[name], fallback, least, most, operation, name);
	return {
		connectTimeoutMs: integer("connectTimeoutMs", 5_000, 1, 600_000),
		maxQueuedMessages: integer("maxQueuedMessages", 4_096, 1, 1 << 20),
		maxQueuedBytes: integer(
			"maxQueuedBytes",
			32 << 20,
			MAX_CONTROL_MESSAGE_BYTES,
			2 ** 32,
		),
		maxQueuedMs: integer("maxQueuedMs", 10_000, 1, 86_400_000),
		drainTimeoutMs: integer("drainTimeoutMs", 500, 0, 60_000),
		announceIntervalMs:
			options.announceIntervalMs === 0
				? 0
				: integer("announceIntervalMs", 5_000, 100, 600_000),
		logger: loggerOf(options.logger, operation),
		clock: clockOf(options.clock, operation),
	};
}

/**
 * The caller's logger, or one that says nothing. It never throws.
 * @throws InvalidArgumentError
 */
export function loggerOf(given: Logger | undefined, operation: string): Logger {
	const logger = given ?? silentLogger;
	if (!LOG_LEVELS.every((level) => typeof logger[level] === "function"))
		throw new InvalidArgumentError(
			operation,
			"logger",
			given,
			`an object with ${LOG_LEVELS.join(", ")}`,
		);
	return guardedLogger(logger);
}

/**
 * The caller's clock, or the system's.
 * @throws InvalidArgumentError
 */
export function clockOf(given: Clock | undefined, operation: string): Clock {
	const clock = given ?? systemClock;
	if (typeof clock.now !== "function" || typeof clock.schedule !== "function")
		throw new InvalidArgumentError(
			operation,
			"clock",
			given,
			"an object with now, schedule",
		);
	return clock;
}

/**
 * An optional integer argument within bounds.
 * @throws InvalidArgumentError
 */
export function boundedInteger(
	value: unknown,
	fallback: number,
	least: number,
	most: number,
	operation: string,
	name: string,
): number {
	if (value === undefined) return fallback;
	if (
		typeof value !== "number" ||
		!Number.isSafeInteger(value) ||
		value < least ||
		value > most
	) {
		throw new InvalidArgumentError(
			operation,
			name,
			value,
			`an integer from ${least} to ${most}`,
		);
	}
	return value;
}
