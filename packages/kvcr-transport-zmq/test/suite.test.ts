import { randomInt } from "node:crypto";
import { type AddressInfo, createServer } from "node:net";
import { controlChannelSuite } from "kvcr-core/testing";
import { describe, it } from "vitest";
import { generateCurveKeys, ZmqControlChannel } from "../src/index.js";

/** A port at which nobody listens any more. */
async function absentEndpoint(): Promise<string> {
	const server = createServer();
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const { port } = server.address() as AddressInfo;
	await new Promise((resolve) => server.close(resolve));
	return `tcp://127.0.0.1:${port}`;
}

/**
 * The port of an endpoint; for a channel that may be anywhere, one below the range that outgoing connections get: a channel
 * that restarts must find its port still free.
 */
const portOf = (endpoint?: string) =>
	endpoint === undefined
		? 20_000 + (next++ % 12_000)
		: Number(/:(\d+)$/.exec(endpoint)?.[1]);
let next = randomInt(12_000);

controlChannelSuite(
	{ describe, it },
	{
		name: "ZmqControlChannel",
		create: (endpoint) => new ZmqControlChannel({ port: portOf(endpoint) }),
		createWildcard: () => new ZmqControlChannel({ host: "0.0.0.0" }),
		absentEndpoint,
	},
);

const keys = generateCurveKeys();
controlChannelSuite(
	{ describe, it },
	{
		name: "ZmqControlChannel with CURVE",
		create: (endpoint) =>
			new ZmqControlChannel({
				port: portOf(endpoint),
				curve: { ...keys, allow: [keys.publicKey], serverKey: keys.publicKey },
			}),
		absentEndpoint,
	},
);

controlChannelSuite(
	{ describe, it },
	{
		name: "ZmqControlChannel over IPv6",
		create: (endpoint) =>
			new ZmqControlChannel({ host: "::1", port: portOf(endpoint) }),
		createWildcard: () =>
			new ZmqControlChannel({ host: "::1", advertise: "tcp://[::]:5" }),
		absentEndpoint: () => "tcp://[::1]:1",
	},
);
