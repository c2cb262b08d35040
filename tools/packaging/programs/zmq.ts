/** The core with ZeroMQ. */
import { PortableTransferAgent } from "kvcr-core/portable";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { ExampleAdapter, exampleKey, main, moveBlock } from "./two-workers.js";

main(async () => {
	const adapter = new ExampleAdapter();
	const key = exampleKey();
	adapter.learn(key);
	await moveBlock(
		async () => ({
			agent: await PortableTransferAgent.create(),
			channel: new ZmqControlChannel({ port: 0 }),
		}),
		adapter,
		key,
	);
});
