/**
 * Workers that follow a publisher of the main thread and close while a replay runs, half of them to exit at once. Prints how many ended, and must end by itself.
 */
import {
	isMainThread,
	parentPort,
	Worker,
	workerData,
} from "node:worker_threads";
import { encode } from "@msgpack/msgpack";
import { silentLogger } from "kvcr-core";
import { Publisher, Router } from "zeromq";
import { KvEventSubscriber } from "../../src/events/index.js";
import { ReverseHashMap } from "../../src/index.js";
import { sequence } from "../support/sequence.js";

if (isMainThread) await main();
else await follow();

async function follow(): Promise<void> {
	const subscriber = new KvEventSubscriber({
		map: new ReverseHashMap(),
		publishers: [workerData as { endpoint: string; replayEndpoint: string }],
		logger: silentLogger,
	});
	parentPort?.on("message", async (how) => {
		await subscriber.close();
		if (how === "exit") process.exit(0);
		parentPort?.close();
	});
	await subscriber.start();
}

async function main(): Promise<void> {
	const pub = new Publisher({ linger: 0 });
	await pub.bind("tcp://127.0.0.1:*");
	const router = new Router({ linger: 0 });
	await router.bind("tcp://127.0.0.1:*");
	const workerData = {
		endpoint: pub.lastEndpoint,
		replayEndpoint: router.lastEndpoint,
	};
	const message = (seq: number): [Buffer, Uint8Array] => {
		const hashes = [Buffer.alloc(32, seq)];
		const event = { type: "BlockStored", block_hashes: hashes };
		return [sequence(seq), encode([seq, [event]])];
	};
	let asked = 0;
	const serving = (async () => {
		for await (const [peer] of router) {
			asked++;
			// More than the other end takes in the time it has, and never the end.
			for (let seq = 0; seq < 500; seq++)
				await router.send([peer as Buffer, "", "", ...message(seq)]);
		}
	})();
	let ended = 0;
	for (let i = 0; i < 6; i++) {
		const worker = new Worker(
			new URL("./events-in-worker.mjs", import.meta.url),
			{ workerData },
		);
		const exit = new Promise((resolve) => worker.once("exit", resolve));
		const before = asked;
		for (let seq = 1000; asked === before; seq++) {
			await pub.send(["", ...message(seq)]);
			await new Promise((resolve) => setTimeout(resolve, 5));
		}
		worker.postMessage(i % 2 === 0 ? "exit" : "close");
		await exit;
		ended++;
	}
	pub.close();
	router.close();
	await serving;
	console.log(`ended ${ended}`);
}
