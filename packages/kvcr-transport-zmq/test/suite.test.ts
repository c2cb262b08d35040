import { type AddressInfo, createServer } from "node:net";
import { controlChannelSuite, freePort } from "kvcr-core/testing";
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

/** The port of an endpoint; for a channel that may be anywhere, one that it still finds free when it restarts. */
const portOf = async (host: string, endpoint?: string) =>
	endpoint === undefined
		? await freePort(host)
		: Number(/:(\d+)$/.exec(endpoint)?.[1]);

controlChannelSuite(
	{ describe, it },
	{
		name: "ZmqControlChannel",
		create: async (endpoint) =>
			new ZmqControlChannel({ port: await portOf("127.0.0.1", endpoint) }),
		createWildcard: () => new ZmqControlChannel({ host: "0.0.0.0" }),
		absentEndpoint,
	},
);

const keys = generateCurveKeys();
controlChannelSuite(
	{ describe, it },
	{
		name: "ZmqControlChannel with CURVE",
		create: async (endpoint) =>
			new ZmqControlChannel({
				port: await portOf("127.0.0.1", endpoint),
				curve: { ...keys, allow: [keys.publicKey], serverKey: keys.publicKey },
			}),
		absentEndpoint,
	},
);

controlChannelSuite(
	{ describe, it },
	{
		name: "ZmqControlChannel over IPv6",
		create: async (endpoint) =>
			new ZmqControlChannel({
				host: "::1",
				port: await portOf("::1", endpoint),
			}),
		createWildcard: () =>
			new ZmqControlChannel({ host: "::1", advertise: "tcp://[::]:5" }),
		absentEndpoint: () => "tcp://[::1]:1",
	},
);
