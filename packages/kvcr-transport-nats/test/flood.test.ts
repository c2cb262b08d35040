/** Floods over a real server, and peers that know nothing of the subjects that keep them apart. */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { connect as connectOld } from "nats";
import { afterEach, expect, it } from "vitest";
import { NatsControlChannel, type NatsLike } from "../src/index.js";
import {
	describeWithServer,
	NatsServer,
	until,
} from "./support/nats-server.js";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
	for (const end of ends.splice(0).reverse()) await end();
});

const FLOOD = 1 << 20;

function numbered(value: number): Uint8Array {
	const bytes = new Uint8Array(4);
	new DataView(bytes.buffer).setUint32(0, value);
	return bytes;
}

function numberOf(bytes: Uint8Array): number {
	return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}

async function server(config?: string): Promise<NatsServer> {
	const started = await NatsServer.start(config);
	ends.push(() => started.stop());
	return started;
}

/** A started channel that has no use for messages from `FLOOD` on. */
async function open(nats: NatsServer, peer: string, connection?: NatsLike) {
	const channel = new NatsControlChannel({
		peer,
		...(connection ? { connection } : { connect: { servers: nats.address } }),
	});
	ends.push(() => channel.close());
	const got: number[] = [];
	let unwanted = 0;
	await channel.start((bytes) => {
		const value = numberOf(bytes);
		if (value < FLOOD) got.push(value);
		else {
			unwanted++;
			channel.slowDown();
		}
	});
	return {
		channel,
		endpoint: channel.endpoint ?? "",
		got,
		unwanted: () => unwanted,
	};
}

async function raw(nats: NatsServer) {
	const connection = await connect({ servers: nats.address });
	ends.push(() => connection.close());
	return connection;
}

/** What a peer of the name `old` gets that knows of no other subject, in a list that grows. */
async function listenAsOld(connection: NatsConnection): Promise<number[]> {
	const got: number[] = [];
	connection.subscribe("kvcr.old", {
		callback: (_error, { data }) => {
			got.push(numberOf(data));
		},
	});
	await connection.flush();
	return got;
}

const MANY = 100_000;
const HONEST = Array.from({ length: 300 }, (_, at) => at);

describeWithServer("a flood over NATS", () => {
	it.each([
		["from somebody nobody knows", "kvcr.b", undefined],
		["from a member", "kvcr.b._from.mallory", undefined],
		[
			"from a member that sends the same again and again",
			"kvcr.b._from.mallory",
			`kvcr.mallory._sent.${"r".repeat(16)}.1`,
		],
		["under a name that is none", "kvcr.b._from._", undefined],
	])(
		"%s ends at the server, and an honest peer loses nothing",
		async (_, subject, reply) => {
			const nats = await server();
			const a = await open(nats, "a");
			const b = await open(nats, "b");
			a.channel.send(b.endpoint, numbered(0));
			await until("the first message", () => b.got.length === 1);
			const mallory = await raw(nats);
			const noise = numbered(FLOOD);
			const flooding = (async () => {
				for (let n = 0; n < MANY; n++) {
					mallory.publish(subject, noise, reply ? { reply } : {});
					if (n % 64 === 63) await mallory.flush();
				}
			})();
			const handled = () =>
				Object.values(b.channel.stats().dropped).reduce(
					(sum, count) => sum + count,
					b.unwanted(),
				);
			await until("the flood", () => handled() > 0);
			for (const value of HONEST.slice(1)) {
				expect(a.channel.send(b.endpoint, numbered(value))).toBe(true);
				await new Promise((done) => setTimeout(done, 1));
			}
			await until("all honest messages", () => b.got.length === HONEST.length);
			await flooding;
			expect(b.got).toEqual(HONEST);
			expect(handled()).toBeLessThan(MANY / 2);
		},
		30_000,
	);

	it("is over some day: whoever flooded is heard again", async () => {
		const nats = await server();
		const [b, m] = [await open(nats, "b"), await open(nats, "m")];
		for (let n = 0; n < 200; n++) m.channel.send(b.endpoint, numbered(FLOOD));
		await until("the flood", () => b.unwanted() >= 64);
		await until(
			"an answer",
			() => {
				m.channel.send(b.endpoint, numbered(1));
				return b.got.length > 0;
			},
			20_000,
		);
	}, 30_000);
});

describeWithServer("a peer that only knows the subject for anybody", () => {
	for (const [name, dial] of [
		["@nats-io/transport-node", connect],
		["nats 2.x", connectOld],
	] as const)
		it(`gets every message once and in order (sent with ${name})`, async () => {
			const nats = await server();
			const connection = await dial({ servers: nats.address });
			ends.push(() => connection.close());
			const old = await raw(nats);
			const got = await listenAsOld(old);
			const a = await open(nats, "a", connection);
			for (const value of HONEST)
				a.channel.send("nats://kvcr.old", numbered(value));
			await until("all messages", () => got.length >= HONEST.length);
			a.channel.send("nats://kvcr.old", numbered(1000));
			await until("one more", () => got.length > HONEST.length);
			expect(got).toEqual([...HONEST, 1000]);
			old.publish("kvcr.a", numbered(5));
			await until("an answer", () => a.got.length === 1);
		});

	it("gets what a sender sent just before it closed", async () => {
		const nats = await server();
		const got = await listenAsOld(await raw(nats));
		const a = await open(nats, "a");
		for (const value of HONEST)
			a.channel.send("nats://kvcr.old", numbered(value));
		await a.channel.close();
		await until("all messages", () => got.length >= HONEST.length);
		expect(got).toEqual(HONEST);
	});

	it("is reached also by a sender that may not be told any more what came back", async () => {
		const config = (subjects: string) =>
			`authorization { users: [
				{user: a, password: p, permissions: {publish: ">", subscribe: [${subjects}]}}
				{user: old, password: p}
			] }`;
		const nats = await server(config('"kvcr.>"'));
		const dial = async (user: string) => {
			const connection = await connect({
				servers: nats.address,
				user,
				pass: "p",
			});
			ends.push(() => connection.close());
			return connection;
		};
		const own = await dial("a");
		const got = await listenAsOld(await dial("old"));
		const a = await open(nats, "a", own);
		await nats.reload(config('"kvcr.a", "kvcr.a._from.*", "kvcr._presence"'));
		await own.flush();
		await until("a message", () => {
			a.channel.send("nats://kvcr.old", numbered(1));
			return got.length > 0;
		});
	});

	it("is served by permissions that know only that subject", async () => {
		const nats = await server(
			`authorization { users: [${["a", "b"].map(
				(user) =>
					`{user: ${user}, password: p, permissions: {publish: ["kvcr.*", "kvcr._presence.${user}"], subscribe: ["kvcr.${user}", "kvcr._presence"]}}`,
			)}] }`,
		);
		const peers = await Promise.all(
			["a", "b"].map(async (user) => {
				const connection = await connect({
					servers: nats.address,
					user,
					pass: "p",
				});
				ends.push(() => connection.close());
				return open(nats, user, connection);
			}),
		);
		const [a, b] = peers as [(typeof peers)[0], (typeof peers)[0]];
		for (const value of HONEST) a.channel.send(b.endpoint, numbered(value));
		b.channel.send(a.endpoint, numbered(7));
		await until("all messages", () => b.got.length === HONEST.length);
		await until("the other way", () => a.got.length === 1);
		expect(b.got).toEqual(HONEST);
		expect(a.channel.stats().permissionViolations).toBe(0);
	});
});
