/** The event intake loads without zeromq, decodes without it, and fails with a plain reason where it is needed. */
import { rejects, strictEqual } from "node:assert";
import { VllmKeyAdapter } from "kvcr-vllm-adapter";
import { decodeEventBatch, KvEventSubscriber } from "kvcr-vllm-adapter/events";
import { main } from "./two-workers.js";

main(async () => {
	strictEqual(typeof decodeEventBatch, "function");
	const { map } = new VllmKeyAdapter({ events: true });
	if (map === undefined) throw new Error("the adapter has no map");
	const subscriber = new KvEventSubscriber({
		map,
		publishers: [{ endpoint: "tcp://127.0.0.1:5557" }],
	});
	await rejects(subscriber.start(), /zeromq/);
	await subscriber.close();
});
