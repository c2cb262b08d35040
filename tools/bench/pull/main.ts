/**
 * Hint to placed between two processes, beside the ZeroMQ round trip and raw loopback TCP of the same run; over NIXL also
 * beside two processes that drive its C library and do nothing else.
 *
 * Run: `npm run bench -- pull [--json FILE]`, or `pull-nixl`; by itself it also takes `--agent portable|nixl` and `--repetitions N`.
 */
import { execFile, fork } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import {
	composeKvHint,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	Kvcr,
	KvcrDriver,
	stringifyKvHint,
} from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { Pull, Push } from "zeromq";
import { nativeProgram } from "../../../packages/kvcr-nixl/scripts/build-program.mjs";
import {
	type Figure,
	judge,
	percentile,
	printFigures,
	writeFigures,
} from "../lib/figures.js";
import {
	type AgentKind,
	adapter,
	createAgent,
	hashOf,
	poolOf,
	pools,
	SHAPES,
	type Shape,
	SOURCE_BLOCKS,
	TARGET_SLOTS,
} from "./shared.js";

/** Bytes of one raw TCP exchange: as much as the bulk shape moves. */
const BULK_BYTES = 64 << 20;
const ZMQ_ROUNDS = 300;
const RAW_ROUNDS = 300;

const { values } = parseArgs({
	options: {
		agent: { type: "string", default: "portable" },
		repetitions: { type: "string", default: "3" },
		json: { type: "string" },
	},
});
const kind = values.agent as AgentKind;

const child = fork(fileURLToPath(new URL("peer.ts", import.meta.url)), [kind]);
child.once("exit", (code) => {
	if (code) throw new Error(`the peer ended with code ${code}`);
});
const [ready] = (await once(child, "message")) as [
	{ endpoint: string; zmq: string; tcpPort: number },
];

const push = new Push();
push.connect(ready.zmq);
const pull = new Pull();
await pull.bind("tcp://127.0.0.1:*");
child.send({ connect: pull.lastEndpoint });
await once(child, "message");
const socket = connect({
	host: "127.0.0.1",
	port: ready.tcpPort,
	noDelay: true,
});
await once(socket, "connect");
const bulk = Array.from({ length: 64 }, () =>
	Buffer.alloc(BULK_BYTES / 64, 0xc3),
);
const size = Buffer.alloc(4);
size.writeUInt32BE(BULK_BYTES);
socket.write(size);

const kvcr = await Kvcr.create({
	agent: await createAgent(kind),
	channel: new ZmqControlChannel({ port: 0 }),
	adapter,
	pools: pools(TARGET_SLOTS),
	operationTimeoutMs: 10_000,
	abandonTimeoutMs: 20_000,
});
const driver = new KvcrDriver(kvcr);
let onOutcome: (report: HintOutcomeReport) => void = () => {};
subscribe(HINT_OUTCOME_CHANNEL, (report) =>
	onOutcome(report as HintOutcomeReport),
);
const next = { small: 0, large: 0 };

const placedMs = new Map<Shape, number[]>(SHAPES.map((shape) => [shape, []]));
const zmqMs: number[] = [];
const tcpMs: number[] = [];
const rawUs: number[] = [];
for (const shape of SHAPES) await placements(shape, shape.warmUp);
for (
	let repetition = -1;
	repetition < Number(values.repetitions);
	repetition += 1
) {
	// The first repetition warms everything up and does not count.
	const counts = repetition >= 0;
	for (const shape of SHAPES) {
		const samples = await placements(shape);
		if (counts) placedMs.get(shape)?.push(...samples);
	}
	const roundTrips = await zmqRoundTrips();
	if (counts) zmqMs.push(...roundTrips);
	if (counts && kind === "nixl") rawUs.push(await rawRoundTrip());
	for (let round = 0; round < 6; round += 1) {
		const ms = await tcpExchange(socket);
		if (counts) tcpMs.push(ms);
	}
}

const zmq = percentile(zmqMs, 0.5);
const tcp = BULK_BYTES / percentile(tcpMs, 0.5) / 1e6;
const figures: Figure[] = [
	{ name: "ZeroMQ round trip, p50", value: zmq * 1000, unit: "us" },
	{
		name: "ZeroMQ round trip, p99",
		value: percentile(zmqMs, 0.99) * 1000,
		unit: "us",
	},
	{ name: "raw loopback TCP, 64 MiB and an answer", value: tcp, unit: "GB/s" },
];
const raw = percentile(rawUs, 0.5);
if (kind === "nixl")
	figures.push({ name: "raw NIXL round trip, 64 KiB", value: raw, unit: "us" });
for (const shape of SHAPES) {
	const samples = placedMs.get(shape) ?? [];
	const p50 = percentile(samples, 0.5);
	const single = shape.blocks === 1;
	figures.push(
		{
			name: `${kind}: hint to placed, ${shape.name}, p50`,
			value: p50 * 1000,
			unit: "us",
			...(single && kind === "nixl"
				? {
						reference: {
							name: "2 ZeroMQ round trips + a raw one",
							value: 2 * zmq * 1000 + raw,
						},
						target: "<= 1" as const,
					}
				: {
						reference: { name: "ZeroMQ round trip, p50", value: zmq * 1000 },
						...(single && { target: "<= 2.5" as const }),
					}),
		},
		{
			name: `${kind}: hint to placed, ${shape.name}, p99`,
			value: percentile(samples, 0.99) * 1000,
			unit: "us",
		},
		{
			name: `${kind}: hint to placed, ${shape.name}`,
			value: (shape.blocks * shape.blockBytes) / p50 / 1e6,
			unit: "GB/s",
			reference: { name: "raw loopback TCP", value: tcp },
			...(shape.blockBytes > 64 << 10 && { target: ">= 0.7" as const }),
		},
	);
}
const judged = figures.map(judge);
printFigures(
	`Hint to placed over the ${kind} agent and ZeroMQ, two processes`,
	judged,
);
if (values.json !== undefined) writeFigures(values.json, judged);

driver.stop();
await kvcr.close();
socket.destroy();
pull.close();
push.linger = 0;
push.close();
child.removeAllListeners("exit");
child.send({});
await once(child, "exit");

/** Submits hints one after the other, each for blocks that are not here, and gives the milliseconds to the last outcome. */
async function placements(
	shape: Shape,
	rounds = shape.rounds,
): Promise<number[]> {
	const pool = poolOf(shape.blockBytes);
	const samples: number[] = [];
	for (let round = 0; round < rounds; round += 1) {
		const hashes: bigint[] = [];
		for (let block = 0; block < shape.blocks; block += 1) {
			hashes.push(hashOf(pool, next[pool]));
			next[pool] = (next[pool] + 1) % SOURCE_BLOCKS[pool];
		}
		const text = stringifyKvHint(
			composeKvHint({ source: ready.endpoint, hashes, scope: "independent" }),
		);
		samples.push(
			await new Promise<number>((resolve, reject) => {
				const startedAt = performance.now();
				let open = hashes.length;
				onOutcome = ({ outcome }) => {
					if (outcome !== "placed")
						reject(new Error(`a block ended as ${outcome}`));
					open -= 1;
					if (open === 0) resolve(performance.now() - startedAt);
				};
				kvcr.submitHint(text);
			}),
		);
	}
	return samples;
}

async function zmqRoundTrips(): Promise<number[]> {
	const message = Buffer.alloc(256, 1);
	const samples: number[] = [];
	for (let round = 0; round < ZMQ_ROUNDS; round += 1) {
		const startedAt = performance.now();
		await push.send(message);
		await pull.receive();
		samples.push(performance.now() - startedAt);
	}
	return samples;
}

/** The median round trip of one 64 KiB write and a notification back, between two processes without JavaScript. */
async function rawRoundTrip(): Promise<number> {
	const { stdout } = await promisify(execFile)(nativeProgram("floor/floor"), [
		process.env.KVCR_NIXL_LIBRARY ?? "",
		"backToBack",
		String(RAW_ROUNDS),
	]);
	return (JSON.parse(stdout) as { p50: number }).p50;
}

async function tcpExchange(to: Socket): Promise<number> {
	const startedAt = performance.now();
	for (const part of bulk) to.write(part);
	await once(to, "data");
	return performance.now() - startedAt;
}
