/** Somebody who sends what it likes to a worker, over a real channel. */
import { setTimeout as sleep } from "node:timers/promises";
import { NatsControlChannel } from "kvcr-transport-nats";
import { Push } from "zeromq";
import type { TestWorker } from "./worker-handle.js";

export interface Stranger {
	/** Resolves once the message is on its way. @throws after `close` */
	send(message: Uint8Array): Promise<void>;
	close(): Promise<void>;
}

/** Connects to a worker over ZeroMQ or NATS, as its own channel does. */
export async function strangerTo(worker: TestWorker): Promise<Stranger> {
	const { channel, natsServer } = worker.options;
	if (channel === "zmq") {
		const push = new Push({ linger: 0 });
		push.connect(worker.endpoint);
		return {
			send: (message) => push.send(message),
			close: async () => push.close(),
		};
	}
	const nats = new NatsControlChannel({
		connect: { servers: natsServer ?? "" },
		peer: "stranger",
	});
	await nats.start(() => {});
	let closed = false;
	return {
		async send(message) {
			while (!nats.send(worker.endpoint, message)) {
				if (closed) throw new Error("closed");
				await sleep(1);
			}
		},
		close: () => {
			closed = true;
			return nats.close();
		},
	};
}
