/** Hints: envelopes read and written, and the advice they leave. */
export * from "./advice-store.js";
export * from "./compose.js";
export * from "./envelope.js";
export { HashTable } from "./hash-table.js";
