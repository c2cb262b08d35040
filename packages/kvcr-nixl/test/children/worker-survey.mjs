/** A worker thread that says which transports it finds. */
import { parentPort } from "node:worker_threads";
import { register } from "tsx/esm/api";

register();
const { surveyTransports } = await import("../../src/index.ts");
parentPort?.postMessage(surveyTransports().transports);
