/**
 * Opens connections of this package's own, with settings that suit a control plane: never give up, notice a dead server
 * within seconds, leak nothing.
 */
import { connect, type NodeConnectionOptions } from "@nats-io/transport-node";
import type { Clock } from "kvcr-core";
import { within } from "./deadline.js";
import { NatsConnectionError, reasonOf } from "./errors.js";
import type { NatsLike } from "./nats-like.js";
import { SocketLedger } from "./socket-ledger.js";

/** Options of the NATS client; see `@nats-io/transport-node`. TLS, credentials and servers go in here. */
export type NatsConnectionOptions = NodeConnectionOptions;

/** A connection together with the power to end its sockets. */
export interface Dialed {
	readonly connection: NatsLike;
	/** Cuts the sockets of a connection that is stale, so that the client dials again. */
	cut(): void;
	/** Closes the connection and every socket it ever opened. Bounded by `timeoutMs`; never rejects. */
	end(timeoutMs: number): Promise<void>;
}

/**
 * What differs from the client's own defaults: reconnect without limit, from 100 ms after a loss; pings every 5 s, two
 * may be missing; wrong credentials are tried again, because they may be rotated while we wait.
 */
const CONTROL_PLANE_DEFAULTS: NatsConnectionOptions = {
	maxReconnectAttempts: -1,
	reconnectTimeWait: 100,
	reconnectJitter: 100,
	reconnectJitterTLS: 200,
	pingInterval: 5_000,
	maxPingOut: 2,
	ignoreAuthErrorAbort: true,
	noAsyncTraces: true,
};

/**
 * Connects within `timeoutMs` milliseconds, unless `signal` aborts first.
 * @throws NatsConnectionError when no server could be reached in time, or all refused; no socket or timer is left behind.
 */
export async function dial(
	options: NatsConnectionOptions,
	timeoutMs: number,
	clock: Clock,
	signal: AbortSignal,
): Promise<Dialed> {
	const ledger = new SocketLedger();
	let given = false;
	const attempt = ledger.run(() =>
		connect({
			...CONTROL_PLANE_DEFAULTS,
			timeout: timeoutMs,
			...options,
		}),
	);
	let settle = () => {};
	const givenUp = new Promise<never>((_resolve, reject) => {
		const give = (reason: string) => {
			given = true;
			reject(new Error(reason));
		};
		const timer = clock.schedule(timeoutMs, () =>
			give(`no server answered within ${timeoutMs} ms`),
		);
		const onAbort = () => give("the channel was closed meanwhile");
		signal.addEventListener("abort", onAbort, { once: true });
		settle = () => {
			timer.cancel();
			signal.removeEventListener("abort", onAbort);
		};
		if (signal.aborted) onAbort();
	});
	try {
		const connection = await Promise.race([attempt, givenUp]);
		return {
			connection,
			cut: () => ledger.destroyAll(),
			end: (endTimeoutMs) => end(connection, ledger, endTimeoutMs, clock),
		};
	} catch (error) {
		ledger.condemn();
		// It may still have come through between the deadline and the cut.
		if (given)
			attempt.then(
				(connection) => connection.close(),
				() => {},
			);
		throw new NatsConnectionError(
			"connect",
			`cannot connect to ${servers(options)}: ${reasonOf(error)}`,
			{ cause: error },
		);
	} finally {
		settle();
	}
}

async function end(
	connection: NatsLike,
	ledger: SocketLedger,
	timeoutMs: number,
	clock: Clock,
): Promise<void> {
	await within(
		clock,
		timeoutMs,
		connection.close().catch(() => {}),
	);
	ledger.condemn();
}

function servers(options: NatsConnectionOptions): string {
	const { servers: list, port } = options;
	if (typeof list === "string") return withoutSecrets(list);
	if (list !== undefined && list.length > 0)
		return list.map(withoutSecrets).join(", ");
	return `127.0.0.1:${port ?? 4222}`;
}

/** A server address may carry a user name and password; they must not reach a log. */
function withoutSecrets(address: string): string {
	return address.replace(/^([a-z]+:\/\/)?[^@/]*@/i, "$1");
}
