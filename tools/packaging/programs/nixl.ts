/** The core with NIXL and ZeroMQ; NIXL's library is at `KVCR_NIXL_LIBRARY`. */
import { NixlTransferAgent } from "kvcr-nixl";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { ExampleAdapter, exampleKey, main, moveBlock } from "./two-workers.js";

main(async () => {
	const adapter = new ExampleAdapter();
	const key = exampleKey();
	adapter.learn(key);
	await moveBlock(
		async () => ({
			agent: await NixlTransferAgent.create(),
			channel: new ZmqControlChannel({ port: 0 }),
		}),
		adapter,
		key,
	);
});
