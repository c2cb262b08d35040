/** A caller's own connection, of the present and of the older client: the channel lives with its losses. */
import { connect } from "@nats-io/transport-node";
import { connect as connectOld } from "nats";
import { expect, it } from "vitest";
import { NatsControlChannel, type NatsLike } from "../src/index.js";
import {
	describeWithServer,
	NatsServer,
	until,
} from "./support/nats-server.js";

const options = (servers: string) => ({
	servers,
	user: "u",
	pass: "p",
	maxReconnectAttempts: -1,
	reconnectTimeWait: 50,
	reconnectJitter: 0,
});
const clients: [string, (servers: string) => Promise<NatsLike>][] = [
	["@nats-io/transport-node", (servers) => connect(options(servers))],
	["nats 2.x", (servers) => connectOld(options(servers))],
];

describeWithServer("a caller's connection", () => {
	it.each(clients)("keeps messages over a restart (%s)", async (_, dial) => {
		const nats = await NatsServer.start();
		const [left, right] = [await dial(nats.address), await dial(nats.address)];
		try {
			const a = new NatsControlChannel({ connection: left });
			const b = new NatsControlChannel({ connection: right });
			const got: number[] = [];
			await a.start(() => {});
			await b.start((message) => got.push(message[0] ?? -1));
			await nats.kill();
			await until(
				"the loss is noticed",
				() => !a.stats().connected && !b.stats().connected,
			);
			expect(a.send(b.endpoint ?? "", Uint8Array.of(1))).toBe(true);
			expect(a.stats().queuedMessages).toBe(1);
			await nats.run();
			await until(
				"both are back",
				() => a.stats().connected && b.stats().connected,
			);
			// The server may hear of the sender before the receiver's subscription: what comes in between is nobody's.
			await until("a message", () => {
				a.send(b.endpoint ?? "", Uint8Array.of(2));
				return got.includes(2);
			});
			// The first is lost in the same case; it never comes late or twice.
			expect([[1, 2], [2]]).toContainEqual(
				got.filter((one, i) => one !== 2 || !got.slice(0, i).includes(2)),
			);
			await a.close();
			await b.close();
			expect(left.isClosed()).toBe(false);
		} finally {
			await left.close();
			await right.close();
			await nats.stop();
		}
	});

	it.each(clients)("reports what the server forbids (%s)", async (_, dial) => {
		const nats = await NatsServer.start(
			'authorization { users: [{user: u, password: p, permissions: {publish: "none", subscribe: "kvcr.mine"}}] }',
		);
		const connection = await dial(nats.address);
		try {
			const forbidden = new NatsControlChannel({
				connection,
				peer: "other",
				announceIntervalMs: 0,
			});
			await expect(forbidden.start(() => {})).rejects.toMatchObject({
				code: "ERR_KVCR_NATS_PERMISSION",
				subject: "kvcr.other",
			});
			await forbidden.close();
			const mine = new NatsControlChannel({
				connection,
				peer: "mine",
				announceIntervalMs: 0,
			});
			await mine.start(() => {});
			mine.send("nats://kvcr.other", Uint8Array.of(1));
			await until(
				"the violation",
				() => mine.stats().permissionViolations === 1,
			);
			await mine.close();
		} finally {
			await connection.close();
			await nats.stop();
		}
	});
});
