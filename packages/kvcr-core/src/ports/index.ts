/** The narrow interfaces between layers, their error classes, and the little that every implementer of one needs. */
export * from "./agent-checks.js";
export * from "./cache-policy.js";
export * from "./checks.js";
export * from "./clock.js";
export * from "./control-channel.js";
export * from "./errors.js";
export * from "./foreign.js";
export * from "./framework-pins.js";
export * from "./inventory.js";
export * from "./key-adapter.js";
export * from "./names.js";
export * from "./system-clock.js";
export * from "./telemetry.js";
export * from "./transfer-agent.js";
