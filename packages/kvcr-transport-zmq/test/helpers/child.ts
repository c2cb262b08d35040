/** A process of its own around one channel; what it does is its first argument. */
import { Worker } from "node:worker_threads";
import { ZmqControlChannel } from "../../src/index.js";

const [role, argument = ""] = process.argv.slice(2);

switch (role) {
	/** Receives at a port and tells the parent every message. */
	case "receiver": {
		const channel = new ZmqControlChannel({ port: Number(argument) });
		await channel.start((message) =>
			process.send?.({ got: Buffer.from(message).toString("latin1") }),
		);
		process.send?.({ endpoint: channel.endpoint });
		break;
	}
	/** Leaves messages for a peer that is not there, closes, and must end by itself. */
	case "closes": {
		const channel = new ZmqControlChannel();
		await channel.start(() => {});
		for (let i = 0; i < 2_000; i += 1)
			channel.send("tcp://127.0.0.1:1", new Uint8Array(1_000));
		await channel.close();
		break;
	}
	/** The same, but calls exit without closing. */
	case "exits": {
		const channel = new ZmqControlChannel();
		await channel.start(() => {});
		for (let i = 0; i < 2_000; i += 1)
			channel.send("tcp://127.0.0.1:1", new Uint8Array(1_000));
		setTimeout(() => process.exit(7), 50);
		break;
	}
	/** Starts workers with busy channels, ends them in several ways, and must end by itself. */
	case "workers": {
		for (const how of ["close", "exit", "exit"]) {
			const worker = new Worker(new URL("./worker.mjs", import.meta.url), {
				workerData: { how },
				execArgv: ["--import", "tsx"],
			});
			await new Promise<void>((resolve, reject) => {
				worker.once("error", reject);
				worker.once("message", () => {
					if (how === "terminate") void worker.terminate();
				});
				worker.once("exit", () => resolve());
			});
		}
		console.log("all workers ended");
		break;
	}
}
