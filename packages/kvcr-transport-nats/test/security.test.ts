/** The server configuration of `docs/security.md`, run as it stands there: who may do what, and who may not. */
import { readFileSync } from "node:fs";
import {
	createAccount,
	createOperator,
	createUser,
	encodeAccount,
	encodeOperator,
	encodeUser,
	fmtCreds,
	type KeyPair,
} from "@nats-io/jwt";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
	credsAuthenticator,
	listenForHints,
	type NatsConnectionOptions,
	NatsControlChannel,
	nkeyAuthenticator,
	watchPeers,
} from "../src/index.js";
import { type Certificates, makeCertificates } from "./support/certificates.js";
import {
	describeWithServer,
	hasOpenssl,
	NatsServer,
	until,
} from "./support/nats-server.js";

const page = readFileSync(
	new URL("../../../docs/security.md", import.meta.url),
	"utf8",
);

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
	for (const end of ends.splice(0).reverse()) await end();
});

/** Opens a raw connection and notes what the server refused it. */
async function raw(options: NatsConnectionOptions) {
	const connection = await connect({ ...options, reconnect: false });
	ends.push(() => connection.close());
	const refusals: string[] = [];
	void (async () => {
		for await (const status of connection.status())
			if (status.type === "error") refusals.push(status.error.message);
	})();
	return { connection, refusals };
}

/** Everything a subscription to `subject` yields; a refused one yields nothing. */
async function tap(connection: NatsConnection, subject: string) {
	const seen: string[] = [];
	connection.subscribe(subject, {
		callback: (error, message) => {
			if (error === null) seen.push(message.subject);
		},
	});
	await connection.flush();
	return seen;
}

async function open(peer: string, options: NatsConnectionOptions) {
	const channel = new NatsControlChannel({ peer, connect: options });
	ends.push(() => channel.close());
	const got: number[] = [];
	await channel.start((message) => got.push(message[0] ?? -1));
	return { channel, endpoint: channel.endpoint ?? "", got };
}

describeWithServer("the server configuration of docs/security.md", () => {
	const openssl = hasOpenssl();
	let nats: NatsServer;
	let certificates: Certificates;
	const users: Record<string, KeyPair> = {};

	/** How one user of the page connects. */
	function as(user: string): NatsConnectionOptions {
		const key = users[user];
		if (key === undefined) throw new Error(`no user ${user}`);
		return {
			servers: nats.address,
			tls: {
				caFile: certificates.ca,
				certFile: certificates.client.cert,
				keyFile: certificates.client.key,
			},
			authenticator: nkeyAuthenticator(key.getSeed()),
		};
	}

	beforeAll(async () => {
		if (!openssl) throw new Error("openssl is needed for test certificates");
		certificates = makeCertificates();
		let config = /```nats-server\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
		for (const [path, file] of [
			["/etc/nats/server.pem", certificates.server.cert],
			["/etc/nats/server.key", certificates.server.key],
			["/etc/nats/ca.pem", certificates.ca],
		] as const) {
			expect(config).toContain(path);
			config = config.replace(path, file);
		}
		for (const name of ["WORKER_1", "WORKER_2", "ROUTER", "OTHER"]) {
			const key = createUser();
			users[name] = key;
			expect(config).toContain(`${name}_PUBLIC_KEY`);
			config = config.replace(`${name}_PUBLIC_KEY`, key.getPublicKey());
		}
		nats = await NatsServer.start(config);
	});

	afterAll(async () => {
		await nats?.stop();
		certificates?.remove();
	});

	it("allows all that workers and routers need", async () => {
		const one = await open("worker-1", as("WORKER_1"));
		const two = await open("worker-2", as("WORKER_2"));
		expect(one.channel.send(two.endpoint, Uint8Array.of(12))).toBe(true);
		expect(two.channel.send(one.endpoint, Uint8Array.of(21))).toBe(true);
		await until("both messages", () => one.got.length + two.got.length === 2);
		expect([one.got, two.got]).toEqual([[21], [12]]);
		// A peer that is not there, and one that is older than the subjects of single senders.
		const older = await raw(as("WORKER_2"));
		expect(one.channel.send("nats://kvcr.nobody", Uint8Array.of(1))).toBe(true);
		await two.channel.close();
		const heard = await tap(older.connection, "kvcr.worker-2");
		one.channel.send("nats://kvcr.worker-2", Uint8Array.of(13));
		await until("what came back, repeated", () => heard.length === 1);
		await older.connection.close();
		const again = await open("worker-2", as("WORKER_2"));

		const taken: string[] = [];
		const hints = await listenForHints(one.channel, {
			submit: (text) => taken.push(text),
		});
		ends.push(() => hints.close());
		const router = await raw({ ...as("ROUTER"), inboxPrefix: "_INBOX.router" });
		const answer = await router.connection.request(
			"kvcr.worker-1.hints",
			"an envelope",
			{ timeout: 2_000 },
		);
		expect(answer.string()).toBe("+OK");
		expect(taken).toEqual(["an envelope"]);

		const watch = await watchPeers(router.connection);
		ends.push(() => watch.close());
		await until("both peers", () => watch.peers().length === 2);
		expect(router.refusals).toEqual([]);
		for (const { channel } of [one, again])
			expect(channel.stats().permissionViolations).toBe(0);
	});

	it("lets another account neither send to a peer nor read its subjects", async () => {
		const one = await open("worker-1", as("WORKER_1"));
		const two = await open("worker-2", as("WORKER_2"));
		const submitted: string[] = [];
		const hints = await listenForHints(one.channel, {
			submit: (text) => submitted.push(text),
		});
		ends.push(() => hints.close());

		const other = await raw(as("OTHER"));
		const everything = await tap(other.connection, ">");
		const direct = await tap(other.connection, "kvcr.worker-1");
		for (const subject of ["kvcr.worker-1", "kvcr.worker-1.hints"])
			other.connection.publish(subject, Uint8Array.of(66));
		await other.connection.flush();
		// Its own publications come back to it, which proves that it was listening and publishing.
		expect(everything).toEqual(["kvcr.worker-1", "kvcr.worker-1.hints"]);
		expect(direct).toEqual(["kvcr.worker-1"]);

		two.channel.send(one.endpoint, Uint8Array.of(21));
		await until("the honest message", () => one.got.length > 0);
		await other.connection.flush();
		expect(one.got).toEqual([21]);
		expect(submitted).toEqual([]);
		expect(everything).toHaveLength(2);
		expect(direct).toHaveLength(1);

		const stranger = await open("worker-1", as("OTHER"));
		two.channel.send(one.endpoint, Uint8Array.of(22));
		await until("the second message", () => one.got.length === 2);
		await other.connection.flush();
		expect(stranger.got).toEqual([]);
		const watch = await watchPeers(stranger.channel);
		ends.push(() => watch.close());
		await until("the stranger itself", () => watch.peers().length > 0);
		expect(watch.peers().map(({ peer }) => peer)).toEqual(["worker-1"]);
	});

	it("lets a member of the same account not be, or overhear, another", async () => {
		const one = await open("worker-1", as("WORKER_1"));
		const two = await raw(as("WORKER_2"));
		for (const subject of [
			"kvcr.worker-1",
			"kvcr.worker-1._from.*",
			"kvcr.worker-1._from.worker-1",
			"kvcr.worker-1._from.worker-2",
			"kvcr.worker-1._sent.>",
			"kvcr.>",
			"kvcr.*",
			">",
			"_INBOX.>",
		]) {
			const before = two.refusals.length;
			const seen = await tap(two.connection, subject);
			one.channel.send(one.endpoint, Uint8Array.of(11));
			await until("the message", () => one.got.length > 0);
			one.got.length = 0;
			await two.connection.flush();
			expect(seen).toEqual([]);
			expect(two.refusals.length).toBeGreaterThan(before);
		}
		await expect(open("worker-1", as("WORKER_2"))).rejects.toMatchObject({
			code: "ERR_KVCR_NATS_PERMISSION",
		});

		const router = await raw({ ...as("ROUTER"), inboxPrefix: "_INBOX.router" });
		const watch = await watchPeers(router.connection);
		ends.push(() => watch.close());
		await until("worker-1", () => watch.peers().length === 1);
		const [before] = watch.peers();
		for (const [subject, text] of [
			[
				"kvcr._presence.worker-1",
				'{"instance":"00000000000000000000000000000000","state":"down","interval_ms":1000}',
			],
			[
				"kvcr._presence.ghost",
				'{"instance":"00000000000000000000000000000000","state":"up","interval_ms":1000}',
			],
			["kvcr.worker-1._from.worker-1", "not in that name"],
			["kvcr.worker-1._from.worker-3", "nor in that"],
			["kvcr.worker-1._sent.x.1", "and this is the server's"],
			["kvcr.worker-1.hints", "not for you to send"],
			["_INBOX.router.x", "nor this"],
		] as const) {
			const count = two.refusals.length;
			two.connection.publish(subject, text);
			await two.connection.flush();
			await until("the refusal", () => two.refusals.length === count + 1);
		}
		expect(watch.peers().map(({ instance }) => instance)).toEqual([
			before?.instance,
		]);
		// A router gives hints; it does not speak on the control channel.
		router.connection.publish("kvcr.worker-1", Uint8Array.of(9));
		await until("the router's refusal", () => router.refusals.length === 1);
		expect(one.got).toEqual([]);
	});

	describe("the door", () => {
		const refused = (options: NatsConnectionOptions) =>
			expect(
				open("worker-1", { ...options, timeout: 1_000 }),
			).rejects.toMatchObject({
				code: "ERR_KVCR_NATS_CONNECTION",
			});

		it("is closed without TLS", () =>
			refused({ ...as("WORKER_1"), tls: null }));

		it("is closed without a client certificate", () =>
			refused({ ...as("WORKER_1"), tls: { caFile: certificates.ca } }));

		it("is closed to a client certificate of another authority", async () => {
			const foreign = makeCertificates();
			try {
				await refused({
					...as("WORKER_1"),
					tls: {
						caFile: certificates.ca,
						certFile: foreign.client.cert,
						keyFile: foreign.client.key,
					},
				});
			} finally {
				foreign.remove();
			}
		});

		it("is not entered when the server's certificate is of another authority", async () => {
			const foreign = makeCertificates();
			try {
				await refused({
					...as("WORKER_1"),
					tls: {
						caFile: foreign.ca,
						certFile: certificates.client.cert,
						keyFile: certificates.client.key,
					},
				});
			} finally {
				foreign.remove();
			}
		});

		it("is closed to an unknown key", () =>
			refused({
				...as("WORKER_1"),
				authenticator: nkeyAuthenticator(createUser().getSeed()),
			}));

		it("is closed without a key", () =>
			refused({ ...as("WORKER_1"), authenticator: [] }));
	});

	it("keeps secrets of a server address out of the error", async () => {
		await expect(
			open("worker-1", { servers: "user:hunter2@127.0.0.1:1", timeout: 500 }),
		).rejects.toMatchObject({
			message: expect.not.stringContaining("hunter2"),
		});
	});
});

describeWithServer("credentials of an operator", () => {
	it("separate accounts, and carry the permissions of a peer", async () => {
		const operator = createOperator();
		const [ours, theirs] = [createAccount(), createAccount()];
		const unlimited = { conn: -1, subs: -1, data: -1, payload: -1 };
		const account = (name: string, key: KeyPair) =>
			encodeAccount(name, key, { limits: unlimited }, { signer: operator });
		const creds = async (name: string, of: KeyPair, permissions = {}) => {
			const key = createUser();
			const token = await encodeUser(name, key, of, permissions, {
				issuer: of,
			} as never);
			return credsAuthenticator(fmtCreds(token, key));
		};
		const nats = await NatsServer.start(
			[
				`operator: "${await encodeOperator("test", operator)}"`,
				"resolver: MEMORY",
				"resolver_preload: {",
				`${ours.getPublicKey()}: "${await account("ours", ours)}"`,
				`${theirs.getPublicKey()}: "${await account("theirs", theirs)}"`,
				"}",
			].join("\n"),
		);
		ends.push(() => nats.stop());
		const permissions = (peer: string) => ({
			pub: {
				allow: [`kvcr.*._from.${peer}`, "kvcr.*", `kvcr._presence.${peer}`],
				deny: [],
			},
			sub: {
				allow: [
					`kvcr.${peer}._from.*`,
					`kvcr.${peer}`,
					`kvcr.${peer}._sent.>`,
					`kvcr.${peer}.hints`,
					"kvcr._presence",
				],
				deny: [],
			},
		});
		const connection = async (name: string, of: KeyPair, permitted = {}) => ({
			servers: nats.address,
			authenticator: await creds(name, of, permitted),
		});
		const one = await open(
			"worker-1",
			await connection("worker-1", ours, permissions("worker-1")),
		);
		const two = await open(
			"worker-2",
			await connection("worker-2", ours, permissions("worker-2")),
		);
		const other = await raw(await connection("other", theirs));
		const overheard = await tap(other.connection, ">");
		other.connection.publish("kvcr.worker-1", Uint8Array.of(66));
		await other.connection.flush();
		two.channel.send(one.endpoint, Uint8Array.of(21));
		await until("the message", () => one.got.length > 0);
		await other.connection.flush();
		expect(one.got).toEqual([21]);
		expect(overheard).toEqual(["kvcr.worker-1"]);
		await expect(
			open(
				"worker-1",
				await connection("worker-2", ours, permissions("worker-2")),
			),
		).rejects.toMatchObject({ code: "ERR_KVCR_NATS_PERMISSION" });
	});
});
