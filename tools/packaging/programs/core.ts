/** The core alone: a channel in memory, and the portable agent. */
import { strictEqual } from "node:assert";
import { PortableTransferAgent } from "kvcr-core/portable";
import { MemoryNetwork } from "kvcr-core/testing";
import { ExampleAdapter, exampleKey, main, moveBlock } from "./two-workers.js";

main(async () => {
	const network = new MemoryNetwork();
	const adapter = new ExampleAdapter();
	const key = exampleKey();
	adapter.learn(key);
	await moveBlock(
		async (name) => ({
			agent: await PortableTransferAgent.create(),
			channel: network.channel(name),
		}),
		adapter,
		key,
	);
	strictEqual(adapter.decodeFromRouter(adapter.decode(key)), key);
});
