/** A worker whose channels are busy when it ends. */
import { parentPort, workerData } from "node:worker_threads";
import { ZmqControlChannel } from "../../src/index.js";

const [a, b] = [new ZmqControlChannel(), new ZmqControlChannel()];
let got = 0;
await a.start(() => {});
await b.start(() => {
	got += 1;
	if (got !== 100) return;
	parentPort?.postMessage("busy");
	if (workerData.how === "exit") process.exit(0);
	if (workerData.how === "close")
		void Promise.all([a.close(), b.close()]).then(() => clearInterval(load));
});
const load = setInterval(() => {
	for (let i = 0; i < 50; i += 1) {
		a.send(b.endpoint as string, new Uint8Array(200));
		a.send("tcp://127.0.0.1:1", new Uint8Array(200));
	}
}, 1);
