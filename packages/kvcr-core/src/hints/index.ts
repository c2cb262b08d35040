/** Hints: envelopes read and written, the advice they leave, and placement that starts at once. */
export * from "./advice-store.js";
export * from "./compose.js";
export * from "./envelope.js";
export { HashTable } from "./hash-table.js";
export * from "./independent.js";
