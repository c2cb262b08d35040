/** The event intake with zeromq: an event published the way vLLM does makes its block known to the adapter. */
import { deepStrictEqual } from "node:assert";
import { encode } from "@msgpack/msgpack";
import { VllmKeyAdapter } from "kvcr-vllm-adapter";
import { KvEventSubscriber } from "kvcr-vllm-adapter/events";
import { Publisher } from "zeromq";
import { main, until } from "./two-workers.js";

main(async () => {
	const publisher = new Publisher({ linger: 0 });
	await publisher.bind("tcp://127.0.0.1:*");
	const adapter = new VllmKeyAdapter({ events: true });
	const { map } = adapter;
	if (map === undefined) throw new Error("the adapter has no map");
	const subscriber = new KvEventSubscriber({
		map,
		publishers: [{ endpoint: publisher.lastEndpoint ?? "" }],
	});
	await subscriber.start();

	const blockHash = new Uint8Array(32).map((_, at) => at * 5 + 1);
	const event = {
		type: "BlockStored",
		block_hashes: [blockHash],
		parent_block_hash: null,
		token_ids: Array.from({ length: 16 }, (_, at) => at),
		block_size: 16,
		lora_id: null,
		medium: "GPU",
		group_idx: 0,
	};
	const key = adapter.encode({ blockHash, groupIndex: 0 });
	let sequence = 0n;
	let published = Promise.resolve();
	// Published again until it arrives: a subscription takes a moment to reach the publisher.
	const timer = setInterval(() => {
		const number = Buffer.alloc(8);
		number.writeBigUInt64BE(sequence++);
		published = published.then(() =>
			publisher.send(["", number, encode([1_700_000_000.5, [event], 0])]),
		);
	}, 20);
	await until(() => map.stats().keys > 0);
	clearInterval(timer);
	await published;
	deepStrictEqual(
		Buffer.from(adapter.decodeFromRouter(adapter.decode(key))),
		Buffer.from(key),
	);
	await subscriber.close();
	publisher.close();
});
