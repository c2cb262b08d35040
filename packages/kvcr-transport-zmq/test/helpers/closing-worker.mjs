/** Alone in its process: starts a worker that ends as the first argument says; prints how that went. */
import { Worker } from "node:worker_threads";

const body = new URL("./closing-worker-body.ts", import.meta.url);
const worker = new Worker(
	`import("tsx/esm/api").then(({ register }) => {
		register();
		return import(${JSON.stringify(body.href)});
	}).catch((error) => setImmediate(() => { throw error; }));`,
	{ eval: true, workerData: process.argv[2] },
);
worker.once("error", ({ message }) => console.log(message));
worker.once("exit", () => console.log("the process goes on"));
