/** A worker that ends while its channel closes. */
import { workerData } from "node:worker_threads";
import { ZmqControlChannel } from "../../src/index.js";

const channel = new ZmqControlChannel();
await channel.start(() => {});
void channel.close();
if (workerData === "exit at once") process.exit(0);
if (workerData === "exit") setImmediate(() => process.exit(0));
if (workerData === "throw") throw new Error("thrown on purpose");
