/**
 * Bench of the KV event intake: stored blocks per second from one publisher, against plain decoding of the same stream.
 *
 *     npm run bench -- kv-events
 *     node --conditions=kvcr-source --import tsx tools/bench/kv-events.ts [--blocks 2000000] [--json FILE]
 *
 * Another process makes the payloads ahead and sends them through a PUB socket to a subscriber in this one, which decodes,
 * orders and applies them. The limit is a decoder alone, on a payload of the same shape that is always in the cache.
 */

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Decoder } from "@msgpack/msgpack";
import { silentLogger } from "kvcr-core";
import { ReverseHashMap } from "kvcr-vllm-adapter";
import { KvEventSubscriber } from "kvcr-vllm-adapter/events";
import { eventPayload } from "./kv-events-payload.js";
import { judge, printFigures, writeFigures } from "./lib/figures.js";
import { stopwatch } from "./reverse-map-timing.js";

const { values } = parseArgs({
	options: {
		blocks: { type: "string", default: "2000000" },
		json: { type: "string" },
	},
});
const blocks = Number(values.blocks);
if (!Number.isInteger(blocks) || blocks < 10_000 || blocks > 20_000_000)
	throw new RangeError(
		`--blocks: ${values.blocks} must be an integer of 10,000 to 20,000,000`,
	);

/** Blocks per event and events per batch: a prefill of 2,048 tokens, two of them in one step. */
const PER_EVENT = 128;
const PER_BATCH = 2;
const batches = Math.ceil(blocks / (PER_EVENT * PER_BATCH));

function decodeOnly(): number {
	const decoder = new Decoder({ useBigInt64: true });
	const { payload } = eventPayload(PER_BATCH, PER_EVENT);
	let count = 0;
	const elapsed = stopwatch();
	for (let i = 0; i < batches; i++) {
		const [, events] = decoder.decode(payload) as [
			number,
			{ block_hashes: unknown[] }[],
		];
		for (const event of events) count += event.block_hashes.length;
	}
	const seconds = elapsed() / 1000;
	return count / seconds;
}

/** From the first block in the map to the last one. */
async function overZeromq(): Promise<number> {
	const publisher = fork(
		fileURLToPath(new URL("kv-events-publisher.ts", import.meta.url)),
		[String(batches), String(PER_BATCH), String(PER_EVENT)],
		{ execArgv: process.execArgv },
	);
	try {
		const endpoint = await new Promise<string>((resolve, reject) => {
			publisher.once("message", (message) => resolve(String(message)));
			publisher.once("exit", (code) =>
				reject(new Error(`the publisher ended with ${code}`)),
			);
		});
		const map = new ReverseHashMap();
		const subscriber = new KvEventSubscriber({
			map,
			publishers: [{ endpoint }],
			logger: silentLogger,
		});
		await subscriber.start();
		const total = batches * PER_BATCH * PER_EVENT;
		const deadline = performance.now() + 120_000;
		let before = 0;
		let elapsed = stopwatch();
		while (map.size < total) {
			if (before === 0 && map.size > 0) {
				before = map.size;
				elapsed = stopwatch();
			}
			if (performance.now() > deadline)
				throw new Error(`only ${map.size} of ${total} blocks arrived`);
			await new Promise((resolve) => setTimeout(resolve, 2));
		}
		const seconds = elapsed() / 1000;
		const stats = subscriber.stats().get(endpoint);
		if (stats?.gaps !== 0) throw new Error("batches were lost");
		await subscriber.close();
		return (total - before) / seconds;
	} finally {
		publisher.kill();
	}
}

const plain = Math.max(decodeOnly(), decodeOnly());
const intake = await overZeromq();
const judged = [
	judge({
		name: "stored blocks from one publisher over ZeroMQ, into the map",
		value: intake,
		unit: "blocks/s",
		target: ">= 500000",
	}),
	judge({
		name: "the same, against the limit",
		value: intake,
		unit: "blocks/s",
		reference: { name: "plain decoding", value: plain },
	}),
];
printFigures(
	`KV event intake, ${batches * PER_BATCH * PER_EVENT} blocks`,
	judged,
);
if (values.json !== undefined) writeFigures(values.json, judged);
