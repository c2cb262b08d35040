/** The other process of the pull bench: the source, and the far ends of the raw comparisons. */
import { createServer } from "node:net";
import { Kvcr, KvcrDriver } from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { Pull, Push } from "zeromq";
import {
	type AgentKind,
	adapter,
	createAgent,
	hashOf,
	keyOf,
	pools,
	SOURCE_BLOCKS,
} from "./shared.js";

const kvcr = await Kvcr.create({
	agent: await createAgent(process.argv[2] as AgentKind),
	channel: new ZmqControlChannel({ port: 0 }),
	adapter,
	pools: pools(SOURCE_BLOCKS),
	operationTimeoutMs: 10_000,
	abandonTimeoutMs: 20_000,
});
const driver = new KvcrDriver(kvcr);
for (const [pool, count] of Object.entries(SOURCE_BLOCKS)) {
	const bytes = new Uint8Array(pool === "small" ? 64 << 10 : 1 << 20).fill(
		0xc3,
	);
	const blocks = Array.from({ length: count }, (_, index) => ({
		key: keyOf(hashOf(pool as "small" | "large", index)),
		pieces: [{ label: pool, bytes }],
	}));
	await driver.deposit(blocks);
}

// Raw ZeroMQ: every message that comes is sent back.
const pull = new Pull();
await pull.bind("tcp://127.0.0.1:*");
const push = new Push();
void (async () => {
	for await (const [message] of pull)
		if (message !== undefined) await push.send(message);
})().catch(() => {});

// Raw TCP: one byte comes back for every `expected` bytes that arrive.
const tcp = createServer((socket) => {
	socket.setNoDelay(true);
	let expected = 0;
	let arrived = 0;
	socket.on("data", (chunk) => {
		let body = chunk;
		if (expected === 0) {
			expected = chunk.readUInt32BE(0);
			body = chunk.subarray(4);
		}
		arrived += body.length;
		if (arrived < expected) return;
		arrived -= expected;
		socket.write("x");
	});
	socket.on("error", () => {});
});
await new Promise<void>((resolve) => tcp.listen(0, "127.0.0.1", resolve));
const address = tcp.address();

process.on("message", async (message: { connect?: string }) => {
	if (message.connect !== undefined) {
		push.connect(message.connect);
		process.send?.({ connected: true });
		return;
	}
	driver.stop();
	await kvcr.close();
	pull.close();
	push.linger = 0;
	push.close();
	tcp.close();
	process.disconnect();
});
process.send?.({
	endpoint: kvcr.endpoint,
	zmq: pull.lastEndpoint,
	tcpPort: typeof address === "object" ? address?.port : undefined,
});
