/** Entry of a worker thread: loads TypeScript, which a worker does not inherit from its process. */
import { register } from "tsx/esm/api";

register();
await import("./events-in-workers.ts");
