/**
 * What becomes of peers whose connections break or cannot be made: `connections.ts MODE`, in an environment of
 * `OVER_RELAYS`. Prints a list of what happened, as JSON.
 */
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import type { RemoteAgent, TransferCompletion, TransferId } from "kvcr-core";
import { createAgent } from "../helpers.js";
import { Relay } from "../relay.js";

const SPEC = { label: "r", elementBytes: 64, elementCount: 4 };

const [target, relay] = await Relay.before(() => createAgent());
const source = await createAgent();
const to = await target.createRegion(SPEC);
const from = await source.createRegion(SPEC);
const metadata = relay.redirect(target.localMetadata());
const events: unknown[] = [];
const ended = new Map<TransferId, TransferCompletion>();
target.attach(() => target.takeNotifications());
source.attach(() => {
	for (const completion of source.takeCompletions())
		ended.set(completion.transfer, completion);
});
target.expectTraffic();

const modes: Record<string, () => Promise<void>> = {
	/** The connection is reset between two writes. */
	async idleReset() {
		const peer = load();
		events.push(await write(peer));
		relay.reset();
		await sleep(50);
		for (let i = 0; i < 3; i += 1) events.push(await write(peer));
		const again = load();
		events.push(await write(again), await write(again));
		events.push(source.notify(again, Buffer.from("x")), await write(peer));
	},
	/** It is reset with writes in flight. */
	async busyReset() {
		const peer = load();
		events.push(await write(peer));
		relay.stall();
		const writes = [post(peer), post(peer), post(peer)];
		await sleep(50);
		events.push(attempt(load));
		relay.reset();
		events.push(await outcome(writes[0]), await outcome(writes[1]));
		events.push(await outcome(writes[2]));
		events.push(attempt(() => source.notify(peer, Buffer.from("x"))));
		events.push(attempt(() => source.connect(peer)));
		events.push(await write(load()));
	},
	/** The peer cannot be reached, and then it can. */
	async comesAndGoes() {
		await relay.close();
		for (let i = 0; i < 3; i += 1)
			events.push(await attempt(() => write(load())));
		await relay.open();
		events.push(await attempt(() => write(load())));
		events.push(await attempt(() => write(load())));
	},
	/** It is reset while the peer is not loaded, and the peer comes back with what it said before. */
	async removedReset() {
		const peer = load();
		events.push(await write(peer));
		source.removeRemote(peer);
		relay.reset();
		await sleep(50);
		const again = load();
		events.push(await write(peer), await write(again), await write(again));
		events.push(await write(load()));
	},
	/** Whether rounds leave no more files open than before: a peer that goes and comes, and one whose regions are not covered. */
	async files() {
		events.push(await write(load()));
		const beyond = { ...to.descriptor, count: 1 << 20 };
		const refused = () => source.addRemote(metadata, [beyond]);
		for (const again of [() => write(load()), async () => attempt(refused)]) {
			const before = openFiles();
			for (let i = 0; i < 20; i += 1) {
				source.removeRemote(load());
				await again();
			}
			await sleep(200);
			events.push(openFiles() - before < 10);
		}
		events.push(attempt(refused));
	},
	/** Nobody answers: the longest that a call takes, in milliseconds. */
	async silence() {
		const silent = new Worker(
			`const { parentPort } = require("node:worker_threads");
			const server = require("node:net").createServer();
			server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
				parentPort.postMessage(server.address().port);
				Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
			});`,
			{ eval: true },
		);
		const [port] = (await once(silent, "message")) as [number];
		// Fills what the system accepts on behalf of the listener; further attempts hear nothing.
		const waiting = Array.from({ length: 8 }, () => {
			const socket = connect(port, "127.0.0.1");
			return socket.on("error", () => {});
		});
		await sleep(100);
		const blob = relay.redirect(target.localMetadata(), port);
		const times: number[] = [];
		const timed = <T>(body: () => T): T => {
			const begin = performance.now();
			const result = body();
			times.push(performance.now() - begin);
			return result;
		};
		const peer = timed(() => source.addRemote(blob, [to.descriptor]));
		timed(() => source.connect(peer));
		await sleep(50);
		timed(() => post(peer));
		await sleep(50);
		// The thread that posts must not be held up either: whoever loads a peer waits for it.
		const own = source.localMetadata();
		timed(() => source.addRemote(own, [from.descriptor]));
		events.push(Math.round(Math.max(...times)));
		for (const socket of waiting) socket.destroy();
		console.log(JSON.stringify(events));
		process.exit(0);
	},
};

function openFiles(): number {
	return readdirSync("/proc/self/fd").length;
}

function load(): RemoteAgent {
	return source.addRemote(metadata, [to.descriptor]);
}

function post(remote: RemoteAgent): TransferId {
	return source.write({
		remote,
		pairs: [{ region: from, element: 0, remoteRegion: 0, remoteElement: 1 }],
		notification: Buffer.from("x"),
	});
}

/** How a write ended, or the code of the error that it was refused with. */
function write(remote: RemoteAgent): unknown {
	return attempt(() => outcome(post(remote)));
}

async function outcome(transfer: TransferId | undefined): Promise<unknown> {
	const end = performance.now() + 10_000;
	while (performance.now() < end) {
		const completion = ended.get(transfer as TransferId);
		if (completion !== undefined) return completion.outcome;
		await sleep(1);
	}
	return "no end";
}

function attempt<T>(body: () => T): T | unknown {
	try {
		return body();
	} catch (error) {
		return (error as { code?: unknown }).code;
	}
}

await modes[process.argv[2] ?? ""]?.();
await relay.close();
await source.close();
await target.close();
console.log(JSON.stringify(events));
