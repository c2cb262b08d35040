/** The narrow interfaces between layers, and their error classes. Nothing here has behavior of its own. */
export * from "./cache-policy.js";
export * from "./clock.js";
export * from "./control-channel.js";
export * from "./errors.js";
export * from "./framework-pins.js";
export * from "./inventory.js";
export * from "./key-adapter.js";
export * from "./names.js";
export * from "./system-clock.js";
export * from "./telemetry.js";
export * from "./transfer-agent.js";
