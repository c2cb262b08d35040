/**
 * The portable agent against raw loopback TCP, both between two Node processes and in the same run, round by round in
 * turns. The raw reference answers each round with one byte: with `data` events that only count bytes (what a plain Node
 * program does), and with reads straight into a buffer that keeps them (the best Node can do).
 *
 *     pnpm --filter kvcr-core exec tsx bench/portable-raw.ts [rounds]
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import {
	type AddressInfo,
	createConnection,
	createServer,
	type Socket,
} from "node:net";
import { readInto } from "../src/portable/accepted-socket.js";
import { PortableTransferAgent } from "../src/portable/index.js";
import type { RegionDescriptor } from "../src/ports/index.js";

const CASES = [
	{ elements: 1, bytes: 64 << 10 },
	{ elements: 16, bytes: 64 << 10 },
	{ elements: 64, bytes: 1 << 20 },
];
const rounds = Number(process.argv[2] ?? 200);

interface Hello {
	readonly counting: number;
	readonly keeping: number;
	readonly metadata: string;
	readonly regions: (Omit<RegionDescriptor, "addr"> & { addr: string })[];
}

if (process.send !== undefined) await receiver();
else await sender();

/** The child: listens on two raw ports and offers one region per case. */
async function receiver(): Promise<void> {
	const kept = new Uint8Array(64 << 20);
	const raw = (keeping: boolean) =>
		new Promise<number>((resolve) => {
			const server = createServer({ pauseOnConnect: true }, (accepted) => {
				let expected = 0;
				let at = 0;
				const took = (bytes: number) => {
					at += bytes;
					if (at < expected) return;
					at = 0;
					socket.write("k");
				};
				// The first four bytes of a connection say how long its rounds are.
				const read = (bytes: Buffer) => {
					if (expected > 0) return took(bytes.length);
					expected = bytes.readUInt32LE(0);
				};
				let socket: Socket;
				if (keeping)
					socket = readInto(accepted, {
						target: () =>
							expected > 0 ? kept.subarray(at, expected) : undefined,
						direct: took,
						read,
					});
				else {
					socket = accepted;
					socket.on("data", read);
					socket.resume();
				}
				socket.setNoDelay(true);
				socket.on("error", () => {});
			});
			server.listen(0, "127.0.0.1", () =>
				resolve((server.address() as AddressInfo).port),
			);
		});
	const agent = await PortableTransferAgent.create();
	const regions = [];
	for (const { elements, bytes } of CASES) {
		const region = await agent.createRegion({
			label: "bench",
			elementBytes: bytes,
			elementCount: elements,
		});
		regions.push({ ...region.descriptor, addr: `${region.descriptor.addr}` });
	}
	agent.attach(() => agent.takeNotifications());
	process.send?.({
		counting: await raw(false),
		keeping: await raw(true),
		metadata: Buffer.from(agent.localMetadata()).toString("base64"),
		regions,
	});
	process.once("disconnect", () => process.exit(0));
}

async function sender(): Promise<void> {
	const child = fork(new URL(import.meta.url), {
		execArgv: ["--import", "tsx"],
	});
	const [hello] = (await once(child, "message")) as [Hello];
	const agent = await PortableTransferAgent.create();
	const remote = agent.addRemote(
		Buffer.from(hello.metadata, "base64"),
		hello.regions.map((region) => ({ ...region, addr: BigInt(region.addr) })),
	);
	let ended = () => {};
	agent.attach(() => {
		for (const { outcome, reason } of agent.takeCompletions()) {
			if (outcome !== "done") throw new Error(reason);
			ended();
		}
	});
	const table = [];
	for (const [index, { elements, bytes }] of CASES.entries()) {
		const total = elements * bytes;
		const region = await agent.createRegion({
			label: "bench",
			elementBytes: bytes,
			elementCount: elements,
		});
		const pairs = Array.from({ length: elements }, (_, element) => ({
			region,
			element,
			remoteRegion: index,
			remoteElement: element,
		}));
		for (const { element } of pairs) region.element(element).fill(7);
		const ways: Record<string, () => Promise<void>> = {
			counting: await rawWay(
				hello.counting,
				total,
				pairs.map((p) => region.element(p.element)),
			),
			keeping: await rawWay(
				hello.keeping,
				total,
				pairs.map((p) => region.element(p.element)),
			),
			portable: () =>
				new Promise((resolve) => {
					ended = resolve;
					agent.write({ remote, pairs, notification: Uint8Array.of(1) });
				}),
		};
		const times: Record<string, number[]> = Object.fromEntries(
			Object.keys(ways).map((name) => [name, []]),
		);
		const count = total > 1 << 24 ? Math.ceil(rounds / 4) : rounds;
		for (let round = -10; round < count; round += 1)
			for (const [name, way] of Object.entries(ways)) {
				const start = performance.now();
				await way();
				if (round >= 0) times[name]?.push(performance.now() - start);
			}
		const median = (name: string) => percentile(times[name] as number[], 0.5);
		for (const name of Object.keys(ways))
			table.push({
				case: `${elements} x ${bytes >> 10} KiB`,
				way: name,
				"p50 ms": median(name).toFixed(3),
				"p10 ms": percentile(times[name] as number[], 0.1).toFixed(3),
				"p99 ms": percentile(times[name] as number[], 0.99).toFixed(3),
				"GB/s": (total / median(name) / 1e6).toFixed(2),
				"portable / this": (median(name) / median("portable")).toFixed(2),
			});
	}
	console.table(table);
	child.disconnect();
	await agent.close();
	process.exit(0);
}

/** One raw connection; a round sends everything and waits for the one byte that answers it. */
async function rawWay(
	port: number,
	total: number,
	views: Uint8Array[],
): Promise<() => Promise<void>> {
	const socket = createConnection({ port, host: "127.0.0.1", noDelay: true });
	await once(socket, "connect");
	const head = Buffer.alloc(4);
	head.writeUInt32LE(total);
	socket.write(head);
	await new Promise((resolve) => setTimeout(resolve, 50));
	let answered = () => {};
	socket.on("data", () => answered());
	return () =>
		new Promise((resolve) => {
			answered = resolve;
			socket.cork();
			for (const view of views) socket.write(view);
			socket.uncork();
		});
}

function percentile(times: number[], at: number): number {
	const sorted = times.toSorted((a, b) => a - b);
	return sorted[
		Math.min(sorted.length - 1, Math.floor(at * sorted.length))
	] as number;
}
