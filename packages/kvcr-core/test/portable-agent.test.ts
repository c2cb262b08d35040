import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createConnection, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
	AckStatus,
	FrameType,
	frame,
	getHeader,
	HEADER_BYTES,
	HELLO_MAGIC,
	LINK_ID_BYTES,
	RUN_BYTES,
	WelcomeStatus,
} from "../src/portable/frames.js";
import {
	type PortableAgentOptions,
	PortableTransferAgent,
} from "../src/portable/index.js";
import { decodeMetadata } from "../src/portable/metadata.js";
import { Sessions } from "../src/portable/sessions.js";
import type {
	MemoryRegion,
	RegionDescriptor,
	RemoteAgent,
	TransferCompletion,
} from "../src/ports/index.js";
import { ManualClock } from "../src/testing/index.js";
import { FlakyProxy } from "./portable-helpers/proxy.js";

const MIB = 1 << 20;
let ends: (() => unknown)[] = [];
beforeEach(() => {
	ends = [];
});
afterEach(async () => {
	for (const end of ends.reverse()) await end();
});

async function agentOf(
	options: PortableAgentOptions = {},
): Promise<PortableTransferAgent> {
	const agent = await PortableTransferAgent.create(options);
	ends.push(() => agent.close());
	return agent;
}

async function until(what: string, check: () => boolean, ms = 8_000) {
	const end = performance.now() + ms;
	while (!check()) {
		if (performance.now() > end) throw new Error(`in vain: ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 2));
	}
}

const region = (
	agent: PortableTransferAgent,
	elementCount: number,
	elementBytes = 4_096,
) => agent.createRegion({ label: "r", elementBytes, elementCount });

function write(
	agent: PortableTransferAgent,
	remote: RemoteAgent,
	from: MemoryRegion,
	elements: number[],
) {
	return agent.write({
		remote,
		pairs: elements.map((element) => ({
			region: from,
			element,
			remoteRegion: 0,
			remoteElement: element,
		})),
		notification: Uint8Array.of(1, 2, 3),
	});
}

async function completion(
	agent: PortableTransferAgent,
	ms?: number,
): Promise<TransferCompletion> {
	const got: TransferCompletion[] = [];
	await until(
		"a completion",
		() => {
			got.push(...agent.takeCompletions());
			return got.length > 0;
		},
		ms,
	);
	expect(got).toHaveLength(1);
	return got[0] as TransferCompletion;
}

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe("addresses", () => {
	it.each([
		"0.0.0.0",
		"::",
		"*",
		"0",
		"0x0",
		"0:0:0:0:0:0:0:0",
		"::ffff:0.0.0.0",
	])("refuses to advertise %s", async (host) => {
		for (const options of [{ host }, { advertisedHost: host }])
			await expect(PortableTransferAgent.create(options)).rejects.toMatchObject(
				{ code: "ERR_KVCR_INVALID_ENDPOINT" },
			);
	});

	it.each([
		{ host: "0.0.0.0", advertisedHost: "127.0.0.1" },
		{ host: "::1" },
		{ host: "127.0.0.1", advertisedHost: "localhost" },
	])("transfers with %o", async (options) => {
		const [writer, reader] = [await agentOf(), await agentOf(options)];
		const [from, to] = [await region(writer, 1), await region(reader, 1)];
		from.element(0).fill(7);
		write(
			writer,
			writer.addRemote(reader.localMetadata(), [to.descriptor]),
			from,
			[0],
		);
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
		expect(to.element(0)[4_095]).toBe(7);
	});

	it("says why it cannot listen", async () => {
		const first = await agentOf();
		const { port } = decodeMetadata("test", first.localMetadata());
		await expect(PortableTransferAgent.create({ port })).rejects.toMatchObject({
			code: "ERR_KVCR_TRANSFER_AGENT",
		});
		await expect(
			PortableTransferAgent.create({ port: 65_536 }),
		).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
		await expect(
			PortableTransferAgent.create({ host: "" }),
		).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
	});
});

describe("misuse is a typed error", () => {
	it("of addRemote: what only looks like bytes", async () => {
		const agent = await agentOf();
		for (const bytes of [
			Object.create(Uint8Array.prototype),
			new Proxy(agent.localMetadata(), {}),
		])
			expect(() => agent.addRemote(bytes, [])).toThrow(
				expect.objectContaining({ code: "ERR_KVCR_INVALID_METADATA" }),
			);
	});

	it.each([
		["options", null],
		["closeGraceMs", { closeGraceMs: 2 ** 31 }],
		["greetingTimeoutMs", { greetingTimeoutMs: "soon" }],
		["maxPeers", { maxPeers: 0 }],
		["name", { name: "half \ud83d" }],
		["clock", { clock: {} }],
	])("of create: %s", async (argument, options) => {
		await expect(
			PortableTransferAgent.create(options as never),
		).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT", argument });
	});

	it.each([null, undefined, 7])(
		"of createRegion and write: %s",
		async (value) => {
			const agent = await PortableTransferAgent.create();
			try {
				await expect(agent.createRegion(value as never)).rejects.toMatchObject({
					code: "ERR_KVCR_INVALID_ARGUMENT",
					argument: "spec",
				});
				const remote = agent.addRemote(agent.localMetadata(), []);
				const notification = Uint8Array.of(1);
				for (const [argument, request] of [
					["request", value],
					["pairs[0]", { remote, pairs: [value], notification }],
				])
					expect(() => agent.write(request as never)).toThrow(
						expect.objectContaining({ argument }),
					);
			} finally {
				await agent.close();
			}
		},
	);
});

describe("memory", () => {
	it("offers regions over 4 GiB and commits only what is touched", async () => {
		const [writer, reader] = [await agentOf(), await agentOf()];
		const before = process.memoryUsage().rss;
		const to = await region(reader, 5 * 1024, MIB);
		const from = await region(writer, 2, MIB);
		from.element(1).fill(9);
		const remote = writer.addRemote(reader.localMetadata(), [to.descriptor]);
		writer.write({
			remote,
			pairs: [
				{
					region: from,
					element: 1,
					remoteRegion: 0,
					remoteElement: 5 * 1024 - 1,
				},
				{ region: from, element: 1, remoteRegion: 0, remoteElement: 255 },
				{ region: from, element: 1, remoteRegion: 0, remoteElement: 256 },
			],
			notification: new Uint8Array(0),
		});
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
		for (const i of [255, 256, 5 * 1024 - 1])
			expect(to.element(i).every((byte) => byte === 9)).toBe(true);
		expect(to.element(257).every((byte) => byte === 0)).toBe(true);
		expect(process.memoryUsage().rss - before).toBeLessThan(512 * MIB);
	});
});

/** Speaks to an agent by hand, with its real token. */
class RawWriter {
	readonly socket: Socket;
	answers = Buffer.alloc(0);
	closed = false;

	constructor(
		reader: PortableTransferAgent,
		readonly linkId = Buffer.alloc(LINK_ID_BYTES, 1),
		readonly token?: Buffer,
	) {
		const metadata = decodeMetadata("test", reader.localMetadata());
		this.socket = createConnection(metadata.port, "127.0.0.1");
		this.socket.on("data", (bytes: Buffer) => {
			this.answers = Buffer.concat([this.answers, bytes]);
		});
		this.socket.on("error", () => {});
		this.socket.on("close", () => {
			this.closed = true;
		});
		ends.push(() => this.socket.destroy());
		this.socket.write(
			frame(
				FrameType.hello,
				Buffer.concat([
					this.token ?? metadata.token,
					this.linkId,
					Buffer.from("raw"),
				]),
				HELLO_MAGIC,
			),
		);
	}

	/** A write frame for one run. */
	opening(
		sequence: number,
		addr: bigint,
		first: number,
		count: number,
	): Buffer {
		const body = Buffer.alloc(4 + RUN_BYTES + 1);
		body.writeUInt32LE(1, 0);
		body.writeBigUInt64LE(addr, 4);
		body.writeUIntLE(first, 12, 6);
		body.writeUIntLE(count, 20, 6);
		return frame(FrameType.write, body, sequence);
	}

	data(bytes: Buffer, last: boolean): Buffer {
		return frame(FrameType.data, bytes, 0, last ? 1 : 0);
	}

	/** The answers so far: type, status, number, reason. */
	frames() {
		const found = [];
		for (let at = 0; at + HEADER_BYTES <= this.answers.length; ) {
			const { type, status, number, length } = getHeader(this.answers, at);
			at += HEADER_BYTES;
			found.push({
				type,
				status,
				number,
				text: this.answers.toString("utf8", at, at + length),
			});
			at += length;
		}
		return found;
	}

	async acks(count: number) {
		const acks = () => this.frames().filter((f) => f.type === FrameType.ack);
		await until("acks", () => acks().length >= count);
		return acks();
	}
}

describe("the door", () => {
	it("lets nobody in who does not know the token", async () => {
		const [writer, reader] = [await agentOf(), await agentOf()];
		const to = await region(reader, 2);
		const text = Buffer.from(reader.localMetadata()).toString();
		const { token } = decodeMetadata("test", reader.localMetadata());
		const wrong = Buffer.from(token);
		wrong[31] = (wrong[31] as number) ^ 1;
		const forged = text.replace(
			Buffer.from(token).toString("base64url"),
			wrong.toString("base64url"),
		);
		const from = await region(writer, 2);
		from.element(0).fill(1);
		const remote = writer.addRemote(Buffer.from(forged), [to.descriptor]);
		write(writer, remote, from, [0]);
		expect(await completion(writer)).toMatchObject({
			outcome: "failed",
			reason: expect.stringContaining("token"),
		});
		expect(to.element(0)[0]).toBe(0);
		expect(reader.takeNotifications()).toEqual([]);
	});

	it("refuses elements and regions that are not there, and goes on with the connection", async () => {
		const reader = await agentOf();
		const to = await region(reader, 2, 100);
		const { addr } = to.descriptor;
		const raw = new RawWriter(reader);
		const bytes = Buffer.alloc(100, 5);
		const cases: [bigint, number, number][] = [
			[addr, 2, 1],
			[addr, 1, 2],
			[addr, 0, 0],
			[addr, 0xffff_ffff_ffff, 1],
			[addr, 1, 0xffff_ffff_ffff],
			[addr + 1n, 0, 1],
			[0n, 0, 1],
		];
		cases.forEach(([where, first, count], i) => {
			raw.socket.write(raw.opening(i + 1, where, first, count));
			raw.socket.write(raw.data(bytes, true));
		});
		raw.socket.write(raw.opening(50, addr, 1, 1));
		raw.socket.write(raw.data(Buffer.alloc(99, 5), true));
		raw.socket.write(raw.opening(51, addr, 1, 1));
		raw.socket.write(raw.data(Buffer.alloc(101, 6), true));
		const acks = await raw.acks(cases.length + 2);
		expect(acks.every((ack) => ack.status === AckStatus.refused)).toBe(true);
		expect(to.element(0).every((byte) => byte === 0)).toBe(true);
		expect(reader.takeNotifications()).toEqual([]);
		raw.socket.write(raw.opening(60, addr, 0, 1));
		raw.socket.write(raw.data(bytes, true));
		expect((await raw.acks(cases.length + 3)).at(-1)).toMatchObject({
			status: AckStatus.done,
			number: 60,
		});
		expect(to.element(0)[99]).toBe(5);
	});

	it("ends a connection that breaks the protocol after it was let in", async () => {
		const reader = await agentOf();
		const { addr } = (await region(reader, 2, 100)).descriptor;
		const breaks: ((raw: RawWriter) => Buffer)[] = [
			(raw) => raw.data(Buffer.alloc(10), true),
			() => frame(FrameType.abort, Buffer.alloc(0), 7),
			() => frame(99, Buffer.alloc(0)),
			() => frame(FrameType.write, Buffer.alloc(3), 1),
			() => frame(FrameType.write, Buffer.alloc(4 + RUN_BYTES - 1), 1),
			(raw) =>
				Buffer.concat([raw.opening(1, addr, 0, 1), raw.opening(2, addr, 0, 1)]),
			(raw) =>
				Buffer.concat([
					raw.opening(1, addr, 0, 1),
					raw.data(Buffer.alloc(0), true),
				]),
			() => frame(FrameType.hello, Buffer.alloc(60), HELLO_MAGIC),
			() => {
				const huge = frame(FrameType.notify, Buffer.alloc(0));
				huge.writeUInt32LE(0xffff_ffff, 4);
				return huge;
			},
		];
		for (const [i, bad] of breaks.entries()) {
			const raw = new RawWriter(reader, Buffer.alloc(LINK_ID_BYTES, i));
			await until("welcome", () => raw.frames().length === 1);
			raw.socket.write(bad(raw));
			await until(`the end of connection ${i}`, () => raw.closed);
		}
	});

	it("lives through noise, and serves others meanwhile", async () => {
		const [writer, reader] = [await agentOf(), await agentOf()];
		const [from, to] = [await region(writer, 4), await region(reader, 4)];
		const remote = writer.addRemote(reader.localMetadata(), [to.descriptor]);
		const { port, token } = decodeMetadata("test", reader.localMetadata());
		let state = 12345;
		const random = () => {
			state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
			return state >> 8;
		};
		for (let i = 0; i < 300; i += 1) {
			const socket = createConnection(port, "127.0.0.1");
			socket.on("error", () => {});
			const bytes = Buffer.from(
				range(1 + (random() % 300)).map(() => random() & 0xff),
			);
			const known = frame(
				FrameType.hello,
				Buffer.concat([token, Buffer.alloc(16, i), Buffer.from("n")]),
				HELLO_MAGIC,
			);
			socket.end(i % 3 === 0 ? Buffer.concat([known, bytes]) : bytes);
			socket.resume();
			if (i % 50 === 0) {
				from.element(0).fill(i + 1);
				write(writer, remote, from, [0]);
				expect(await completion(writer)).toMatchObject({ outcome: "done" });
				expect(to.element(0)[0]).toBe((i + 1) & 0xff);
			}
			if (i % 20 === 19) await once(socket, "close");
		}
		expect([1, 2, 3].every((i) => to.element(i).every((b) => b === 0))).toBe(
			true,
		);
	});

	it("ends those who connect and say nothing: after a while, or when there are too many", async () => {
		const clock = new ManualClock();
		const reader = await agentOf({ clock, greetingTimeoutMs: 1_000 });
		const { port } = decodeMetadata("test", reader.localMetadata());
		let open = 0;
		for (let i = 0; i < 100; i += 1) {
			const socket = createConnection(port, "127.0.0.1");
			ends.push(() => socket.destroy());
			socket.on("error", () => {});
			socket.on("connect", () => {
				open += 1;
				socket.on("close", () => {
					open -= 1;
				});
			});
			await once(socket, "connect");
		}
		await until("the bound", () => open === 64);
		expect(clock.pending).toBe(64);
		clock.advance(1_000);
		await until("the end of all", () => open === 0);
		expect(clock.pending).toBe(0);
	});

	it("does not forget links in use for links that come and go", () => {
		const connection = () => ({
			live: true,
			end() {
				this.live = false;
			},
		});
		const sessions = new Sessions(2);
		const used = connection();
		const session = sessions.open("used", used);
		for (let at = 0; at < 10_000; at += 1) {
			const other = connection();
			sessions.open(`other-${at}`, other);
			other.end();
		}
		expect(used.live).toBe(true);
		expect(sessions.open("used", connection())).toBe(session);
		// The connection of before: one link has one connection.
		expect(used.live).toBe(false);
	});

	it("remembers nothing of a link that it turns away", async () => {
		const open = vi.spyOn(Sessions.prototype, "open");
		ends.push(() => open.mockRestore());
		const reader = await agentOf({ maxPeers: 1 });
		const first = new RawWriter(reader);
		await until("the welcome", () => first.frames().length === 1);
		const second = new RawWriter(reader, Buffer.alloc(LINK_ID_BYTES, 2));
		await until("the refusal", () => second.closed);
		expect(second.frames()).toMatchObject([{ status: WelcomeStatus.busy }]);
		expect(open).toHaveBeenCalledTimes(1);
		// The first one is still served, and may come back although nobody else may come.
		expect(first.closed).toBe(false);
		const again = new RawWriter(reader);
		await until("its return", () => again.frames().length === 1);
		expect(again.frames()).toMatchObject([{ status: WelcomeStatus.ok }]);
	});

	it("takes no more peers than it was told to", async () => {
		const reader = await agentOf({ maxPeers: 2 });
		const to = await region(reader, 1);
		const outcomes = [];
		for (let i = 0; i < 3; i += 1) {
			const writer = await agentOf();
			const from = await region(writer, 1);
			write(
				writer,
				writer.addRemote(reader.localMetadata(), [to.descriptor]),
				from,
				[0],
			);
			outcomes.push((await completion(writer)).outcome);
		}
		expect(outcomes).toEqual(["done", "done", "failed"]);
	});
});

describe("answers to writes that arrived", () => {
	it("go out after the owner's turn, together, and at once when they are bad news", async () => {
		const [writer, reader] = [await agentOf(), await agentOf()];
		const [from, to] = [await region(writer, 3), await region(reader, 3)];
		const remote = writer.addRemote(reader.localMetadata(), [to.descriptor]);
		const raw = new RawWriter(reader);
		raw.socket.write(raw.opening(1, 0n, 0, 1));
		raw.socket.write(raw.data(Buffer.alloc(1), true));
		expect(await raw.acks(1)).toMatchObject([{ status: AckStatus.refused }]);

		const happened: string[] = [];
		const original = Socket.prototype.write as (...args: unknown[]) => boolean;
		const send = vi
			.spyOn(Socket.prototype, "write")
			.mockImplementation(function (this: Socket, ...args: unknown[]) {
				const [chunk] = args;
				if (Buffer.isBuffer(chunk) && chunk[0] === FrameType.ack)
					happened.push(`answers: ${chunk.length / HEADER_BYTES}`);
				return Reflect.apply(original, this, args);
			});
		ends.push(() => send.mockRestore());
		reader.attach(() =>
			queueMicrotask(() => {
				for (const _ of reader.takeNotifications()) happened.push("heard");
			}),
		);
		for (const element of range(3)) write(writer, remote, from, [element]);
		const got: TransferCompletion[] = [];
		await until("completions", () => {
			got.push(...writer.takeCompletions());
			return got.length === 3;
		});
		expect(got.every(({ outcome }) => outcome === "done")).toBe(true);
		// However the writes were spread over reads, no answer went before its write was heard of.
		let open = 0;
		for (const what of happened) {
			open += what === "heard" ? 1 : -Number(what.slice("answers: ".length));
			expect(open).toBeGreaterThanOrEqual(0);
		}
		expect(open).toBe(0);
	});

	it("are told by a reader that closes in its turn", async () => {
		const [writer, reader] = [await agentOf(), await agentOf()];
		const [from, to] = [await region(writer, 1), await region(reader, 1)];
		const remote = writer.addRemote(reader.localMetadata(), [to.descriptor]);
		reader.attach(() => void reader.close());
		write(writer, remote, from, [0]);
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
	});
});

describe("a region that is released while a write arrives", () => {
	it.each([200, 2 * MIB])("is never written (%i bytes)", async (size) => {
		const reader = await agentOf();
		const to = await region(reader, 2, size);
		const kept = await region(reader, 1, 10);
		const raw = new RawWriter(reader);
		const chunk = Math.min(size, MIB);
		const whole = raw.data(Buffer.alloc(chunk, 7), size === chunk);
		raw.socket.write(raw.opening(1, to.descriptor.addr, 0, 1));
		// Half of a data frame: for the large size the agent now reads straight into the region.
		raw.socket.write(whole.subarray(0, HEADER_BYTES + chunk / 2));
		await until("the first half", () => to.element(0)[chunk / 2 - 1] === 7);
		const view = to.element(0);
		to.release();
		expect(view.length).toBe(0);
		raw.socket.write(whole.subarray(HEADER_BYTES + chunk / 2));
		for (let left = size - chunk; left > 0; left -= chunk)
			raw.socket.write(raw.data(Buffer.alloc(chunk, 7), left === chunk));
		expect((await raw.acks(1))[0]).toMatchObject({
			status: AckStatus.refused,
			text: expect.stringContaining("released"),
		});
		expect(reader.takeNotifications()).toEqual([]);
		raw.socket.write(raw.opening(2, kept.descriptor.addr, 0, 1));
		raw.socket.write(raw.data(Buffer.alloc(10, 3), true));
		expect((await raw.acks(2))[1]).toMatchObject({ status: AckStatus.done });
		expect(kept.element(0)[9]).toBe(3);
	});
});

describe("a connection that breaks off", () => {
	async function throughProxy(elements: number, elementBytes: number) {
		const proxy = new FlakyProxy();
		const port = await proxy.listen();
		ends.push(() => proxy.close());
		const writer = await agentOf();
		const inner = await agentOf({ advertisedPort: port });
		const direct = Number(/:(\d+)$/.exec(await listeningAddress(inner))?.[1]);
		proxy.targetPort = direct;
		const from = await region(writer, elements, elementBytes);
		const to = await region(inner, elements, elementBytes);
		const remote = writer.addRemote(inner.localMetadata(), [to.descriptor]);
		return { proxy, writer, reader: inner, from, to, remote };
	}
	/** The port an agent really listens on; its metadata names the proxy's. */
	async function listeningAddress(agent: PortableTransferAgent) {
		return agent.info.details.listening as string;
	}

	it("fails a half-sent write only after the target can no longer write it", async () => {
		const { proxy, writer, reader, from, to, remote } = await throughProxy(
			32,
			MIB,
		);
		for (const i of range(32)) from.element(i).fill(1);
		proxy.onForward = (total) => {
			if (total < 8 * MIB || proxy.accepted > 1) return;
			proxy.cut();
		};
		write(writer, remote, from, range(32));
		expect(await completion(writer)).toMatchObject({ outcome: "failed" });
		expect(proxy.accepted).toBe(2);
		for (const i of range(32)) to.element(i).fill(2);
		await new Promise((resolve) => setTimeout(resolve, 100));
		expect(range(32).every((i) => to.element(i).every((b) => b === 2))).toBe(
			true,
		);
		expect(reader.takeNotifications()).toEqual([]);
		write(writer, remote, from, [3]);
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
	});

	it("reports a write as done whose acknowledgement was lost", async () => {
		const { proxy, writer, reader, from, to, remote } = await throughProxy(
			2,
			1_000,
		);
		write(writer, remote, from, [0]);
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
		proxy.swallowAnswers = true;
		from.element(1).fill(4);
		write(writer, remote, from, [1]);
		await until("arrival", () => to.element(1)[999] === 4);
		expect(writer.takeCompletions()).toEqual([]);
		proxy.swallowAnswers = false;
		proxy.cut();
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
		expect(reader.takeNotifications()).toHaveLength(2);
	});

	it("sends what was waiting over the next connection", async () => {
		const { proxy, writer, from, to, remote } = await throughProxy(8, MIB);
		proxy.onForward = (total) => {
			if (total > 2 * MIB && proxy.accepted === 1) proxy.cut();
		};
		for (const i of range(8)) from.element(i).fill(i + 1);
		for (let i = 0; i < 6; i += 1) write(writer, remote, from, range(8));
		const outcomes: string[] = [];
		await until("all", () => {
			outcomes.push(...writer.takeCompletions().map((c) => c.outcome));
			return outcomes.length === 6;
		});
		expect(outcomes.filter((o) => o === "done").length).toBeGreaterThan(0);
		expect(outcomes.at(-1)).toBe("done");
		expect(range(8).map((i) => to.element(i)[0])).toEqual(
			range(8).map((i) => i + 1),
		);
	});
});

describe("another process", () => {
	async function childPeer(elementBytes: number, elementCount: number) {
		const child: ChildProcess = fork(
			new URL("./portable-helpers/peer.ts", import.meta.url),
			[String(elementBytes), String(elementCount)],
			{ execArgv: ["--import", "tsx"], stdio: "inherit" },
		);
		ends.push(() => child.kill("SIGKILL"));
		const [hello] = (await once(child, "message")) as [
			{ metadata: string; descriptor: RegionDescriptor & { addr: string } },
		];
		const descriptor = {
			...hello.descriptor,
			addr: BigInt(hello.descriptor.addr),
		};
		const writer = await agentOf();
		const remote = writer.addRemote(Buffer.from(hello.metadata, "base64"), [
			descriptor,
		]);
		const from = await region(writer, elementCount, elementBytes);
		return { child, writer, remote, from };
	}

	it("that is killed in the middle fails what was in flight, soon", async () => {
		const { child, writer, remote, from } = await childPeer(MIB, 64);
		for (let i = 0; i < 4; i += 1) write(writer, remote, from, range(64));
		setTimeout(() => child.kill("SIGKILL"), 10);
		const got: TransferCompletion[] = [];
		const start = performance.now();
		await until("four ends", () => {
			got.push(...writer.takeCompletions());
			return got.length === 4;
		});
		expect(performance.now() - start).toBeLessThan(3_000);
		expect(got.some((c) => c.outcome === "failed")).toBe(true);
		from.release();
		writer.removeRemote(remote);
	});

	it("that is stopped keeps a cancelled write in flight until it goes on", async () => {
		const { child, writer, remote, from } = await childPeer(MIB, 64);
		const warm = write(writer, remote, from, [0]);
		expect(await completion(writer)).toMatchObject({ transfer: warm });
		child.kill("SIGSTOP");
		const transfer = write(writer, remote, from, range(64));
		await new Promise((resolve) => setTimeout(resolve, 50));
		expect(writer.cancel(transfer)).toBe(true);
		await new Promise((resolve) => setTimeout(resolve, 100));
		expect(writer.takeCompletions()).toEqual([]);
		expect(() => from.release()).toThrow(/still used/);
		child.kill("SIGCONT");
		expect(await completion(writer)).toMatchObject({ outcome: "cancelled" });
	});

	it("ends by itself once its agent is closed", async () => {
		const { child, writer, remote, from } = await childPeer(64, 1);
		write(writer, remote, from, [0]);
		expect(await completion(writer)).toMatchObject({ outcome: "done" });
		child.send("close");
		const [code] = await once(child, "exit");
		expect(code).toBe(0);
	});
});
