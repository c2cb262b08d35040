/** Which peers are there, from the NATS server alone. */
import { connect } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import {
	NatsControlChannel,
	type NatsControlChannelOptions,
	type WatchPeersOptions,
	watchPeers,
} from "../src/index.js";
import {
	describeWithServer,
	NatsServer,
	until,
} from "./support/nats-server.js";

describeWithServer("presence", () => {
	let nats: NatsServer;
	const ends: (() => Promise<unknown>)[] = [];

	beforeAll(async () => {
		nats = await NatsServer.start();
	});
	afterEach(async () => {
		for (const end of ends.splice(0).reverse()) await end();
	});
	afterAll(() => nats?.stop());

	async function open(options: NatsControlChannelOptions) {
		const channel = new NatsControlChannel({
			connect: { servers: nats.address },
			...options,
		});
		ends.push(() => channel.close());
		await channel.start(() => {});
		return channel;
	}

	async function plain() {
		const connection = await connect({ servers: nats.address });
		ends.push(() => connection.close());
		return connection;
	}

	async function watch(options: WatchPeersOptions = {}) {
		const changes: string[] = [];
		const watching = await watchPeers(await plain(), {
			onChange: (change, { peer }) => changes.push(`${change} ${peer}`),
			...options,
		});
		ends.push(() => watching.close());
		return {
			watching,
			changes,
			names: () => watching.peers().map(({ peer }) => peer),
		};
	}

	it("finds the peers already there at once, whatever their interval", async () => {
		await open({ peer: "b", announceIntervalMs: 600_000 });
		await open({ peer: "a", announceIntervalMs: 600_000 });
		const { watching, names } = await watch();
		await until("both peers", () => names().length === 2, 1_500);
		expect(watching.peers().map(({ endpoint }) => endpoint)).toEqual([
			"nats://kvcr.a",
			"nats://kvcr.b",
		]);
	});

	it("tells of those who come, restart and leave", async () => {
		const { changes, names } = await watch();
		const first = await open({ peer: "a" });
		await until("a", () => names().includes("a"));
		await first.close();
		await until("a to leave", () => names().length === 0);
		const second = await open({ peer: "a" });
		await until("a again", () => names().includes("a"));
		expect(changes).toEqual(["joined a", "left a", "joined a"]);
		// The same name from another instance, without a farewell between.
		await open({ peer: "a" });
		await until("the restart", () => changes.includes("restarted a"));
		await second.close();
	});

	it("notices a peer that vanished without saying goodbye", async () => {
		const { changes } = await watch();
		const connection = await connect({ servers: nats.address });
		const channel = await open({
			peer: "a",
			connection,
			connect: undefined as never,
			announceIntervalMs: 100,
		});
		await until("a", () => changes.includes("joined a"));
		await connection.close();
		await until("its expiry", () => changes.includes("expired a"), 2_000);
		await channel.close();
	});

	it("is not seen when announcements are off", async () => {
		await open({ peer: "quiet", announceIntervalMs: 0 });
		await open({ peer: "seen" });
		const { names } = await watch();
		await until("the other", () => names().includes("seen"));
		expect(names()).toEqual(["seen"]);
	});

	it("answers a storm of questions with a few announcements", async () => {
		await open({ peer: "a" });
		const connection = await plain();
		let heard = 0;
		connection.subscribe("kvcr._presence.a", {
			callback: () => {
				heard++;
			},
		});
		await connection.flush();
		const end = performance.now() + 500;
		while (performance.now() < end) {
			for (let i = 0; i < 100; i++) connection.publish("kvcr._presence");
			await connection.flush();
		}
		expect(heard).toBeGreaterThanOrEqual(1);
		expect(heard).toBeLessThanOrEqual(5);
	});

	it("drops malformed and excess announcements and keeps working", async () => {
		const { watching, names } = await watch({ maxPeers: 2 });
		const connection = await plain();
		const good = (instance = "0".repeat(32)) =>
			JSON.stringify({ instance, state: "up", interval_ms: 60_000 });
		for (const bad of [
			"",
			"{",
			"null",
			"[]",
			good("short"),
			JSON.stringify({ instance: "0".repeat(32), state: "up" }),
			JSON.stringify({
				instance: "0".repeat(32),
				state: "up",
				interval_ms: 1e300,
			}),
			JSON.stringify({ instance: "0".repeat(32), state: "up", interval_ms: 0 }),
			JSON.stringify({
				instance: "0".repeat(32),
				state: "?",
				interval_ms: 1_000,
			}),
			`${good()}${" ".repeat(1_000)}`,
		])
			connection.publish("kvcr._presence.x", Buffer.from(bad));
		connection.publish("kvcr._presence.x", Uint8Array.of(0xff, 0xfe));
		connection.publish("kvcr._presence.$x", Buffer.from(good()));
		for (const peer of ["a", "b", "c"])
			connection.publish(`kvcr._presence.${peer}`, Buffer.from(good()));
		await until("all of them", () => watching.dropped().too_many_peers === 1);
		expect(names()).toEqual(["a", "b"]);
		expect(watching.dropped()).toEqual({ malformed: 12, too_many_peers: 1 });
	});

	it("asks again after the server was restarted", async () => {
		const own = await NatsServer.start();
		ends.push(() => own.stop());
		const connectOptions = { servers: own.address };
		const watcher = await open({ peer: "w", connect: connectOptions });
		const watching = await watchPeers(watcher);
		ends.push(() => watching.close());
		await own.kill();
		await own.run();
		await open({
			peer: "late",
			connect: connectOptions,
			announceIntervalMs: 600_000,
		});
		await until("the late peer", () =>
			watching.peers().some(({ peer }) => peer === "late"),
		);
	});
});
