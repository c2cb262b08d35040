/** Built-in placement policies. */
export { BuiltInPolicy } from "./built-in-policy.js";
export { FifoPolicy } from "./fifo.js";
export { LruPolicy } from "./lru.js";
