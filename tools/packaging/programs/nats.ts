/** The core with NATS; the server is at `NATS_URL`. */
import { PortableTransferAgent } from "kvcr-core/portable";
import { NatsControlChannel } from "kvcr-transport-nats";
import { ExampleAdapter, exampleKey, main, moveBlock } from "./two-workers.js";

main(async () => {
	const adapter = new ExampleAdapter();
	const key = exampleKey();
	adapter.learn(key);
	await moveBlock(
		async (peer) => ({
			agent: await PortableTransferAgent.create(),
			channel: new NatsControlChannel({
				peer: `${peer}-${process.pid}`,
				connect: { servers: process.env.NATS_URL ?? "" },
			}),
		}),
		adapter,
		key,
	);
});
