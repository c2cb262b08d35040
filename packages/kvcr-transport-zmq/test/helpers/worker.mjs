/** Loads the TypeScript body of a worker: a worker's own entry cannot be TypeScript. */
import { register } from "tsx/esm/api";

register();
await import("./worker-body.ts");
