import { controlChannelSuite, freePort } from "kvcr-core/testing";
import { describe, it } from "vitest";
import { generateCurveKeys, ZmqControlChannel } from "../src/index.js";

/** An endpoint at which nobody listens. */
const absentEndpoint = async () => `tcp://127.0.0.1:${await freePort()}`;

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
