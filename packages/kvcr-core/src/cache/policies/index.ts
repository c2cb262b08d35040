/** Built-in placement policies. */
export { BuiltInPolicy } from "./built-in-policy.js";
export { FifoPolicy } from "./fifo.js";
export { FrequencyPolicy, type FrequencyPolicyOptions } from "./frequency.js";
export { LruPolicy } from "./lru.js";
