/**
 * Round trip of a small message through the channel against bare zeromq, both between two Node processes, in turns.
 *
 *     pnpm --filter kvcr-transport-zmq exec tsx --conditions kvcr-source bench/round-trip.ts [rounds]
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { Pull, Push } from "zeromq";
import { ZmqControlChannel } from "../src/index.js";

const rounds = Number(process.argv[2] ?? 2_000);
const message = Buffer.alloc(200, 1);

interface Addresses {
	readonly channel: string;
	readonly bare: string;
}

if (process.send !== undefined) await echo();
else await measure();

/** The child: sends back what it gets, either way. */
async function echo(): Promise<void> {
	const [parent] = (await once(process, "message")) as [Addresses];
	const channel = new ZmqControlChannel();
	await channel.start((bytes) => void channel.send(parent.channel, bytes));
	const pull = new Pull({ linger: 0 });
	await pull.bind("tcp://127.0.0.1:*");
	const push = new Push({ linger: 0 });
	push.connect(parent.bare);
	process.send?.({ channel: channel.endpoint, bare: pull.lastEndpoint });
	process.once("disconnect", () => process.exit(0));
	for await (const [bytes] of pull) await push.send(bytes as Buffer);
}

async function measure(): Promise<void> {
	let arrived = () => {};
	const channel = new ZmqControlChannel();
	await channel.start(() => arrived());
	const pull = new Pull({ linger: 0 });
	await pull.bind("tcp://127.0.0.1:*");
	const child = fork(new URL(import.meta.url), {
		execArgv: ["--import", "tsx", "--conditions", "kvcr-source"],
	});
	child.send({ channel: channel.endpoint, bare: pull.lastEndpoint });
	const [peer] = (await once(child, "message")) as [Addresses];
	const push = new Push({ linger: 0 });
	push.connect(peer.bare);
	const ways = {
		bare: async () => {
			await push.send(message);
			await pull.receive();
		},
		channel: () =>
			new Promise<void>((resolve) => {
				arrived = resolve;
				channel.send(peer.channel, message);
			}),
	};
	const times = { bare: [] as number[], channel: [] as number[] };
	for (let round = -200; round < rounds; round += 1)
		for (const way of ["bare", "channel"] as const) {
			const start = performance.now();
			await ways[way]();
			if (round >= 0) times[way].push(performance.now() - start);
		}
	const row = (way: "bare" | "channel", at: number) => {
		const sorted = times[way].toSorted((a, b) => a - b);
		return sorted[Math.floor(at * (sorted.length - 1))] as number;
	};
	console.table(
		(["bare", "channel"] as const).map((way) => ({
			way,
			"p10 ms": row(way, 0.1).toFixed(3),
			"p50 ms": row(way, 0.5).toFixed(3),
			"p99 ms": row(way, 0.99).toFixed(3),
			"p50 / bare": (row(way, 0.5) / row("bare", 0.5)).toFixed(2),
		})),
	);
	child.disconnect();
	process.exit(0);
}
