/** The contract of every control channel, over a real server, with each way to connect. */
import { connect } from "@nats-io/transport-node";
import { controlChannelSuite } from "kvcr-core/testing";
import { connect as connectOld } from "nats";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NatsControlChannel, type NatsLike } from "../src/index.js";
import { describeWithServer, NatsServer } from "./support/nats-server.js";

describeWithServer("conformance", () => {
	let server: NatsServer;
	let modern: Awaited<ReturnType<typeof connect>>;
	let old: Awaited<ReturnType<typeof connectOld>>;

	beforeAll(async () => {
		server = await NatsServer.start();
		modern = await connect({ servers: server.address });
		old = await connectOld({ servers: server.address });
	});

	afterAll(async () => {
		await modern?.close();
		await old?.close();
		await server?.stop();
	});

	const peerOf = (endpoint: string) => endpoint.slice("nats://kvcr.".length);
	const foreignEndpoints = [
		"",
		"nonsense",
		"tcp://127.0.0.1:4222",
		"nats://",
		"nats://kvcr",
		"nats://kvcr.",
		"nats://kvcr.*",
		"nats://kvcr.>",
		"nats://kvcr.a.b",
		"nats://kvcr.a b",
		"nats://kvcr.a\r\nPUB other 1",
		"nats://kvcr._presence",
		"nats://kvcr.$SYS",
		"nats://other.a",
		"nats://kvcr.ä",
	];

	const withConnection = (
		name: string,
		connection: () => NatsLike | undefined,
	) =>
		controlChannelSuite(
			{ describe, it },
			{
				name,
				create: (endpoint) => {
					const given = connection();
					return new NatsControlChannel({
						...(endpoint ? { peer: peerOf(endpoint) } : {}),
						...(given
							? { connection: given }
							: { connect: { servers: server.address } }),
					});
				},
				absentEndpoint: () => "nats://kvcr.nobody",
				createWildcard: () => new NatsControlChannel({ peer: "*" }),
				foreignEndpoints,
			},
		);

	withConnection("NATS, own connection", () => undefined);
	withConnection("NATS, a caller's connection", () => modern);
	withConnection("NATS, a caller's connection of nats 2.x", () => old);

	it("never closes a caller's connection, of either client", async () => {
		for (const connection of [modern, old]) {
			const channel = new NatsControlChannel({ connection });
			await channel.start(() => {});
			await channel.close();
			expect(connection.isClosed()).toBe(false);
			await connection.flush();
		}
	});
});
