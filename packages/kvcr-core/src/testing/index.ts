/**
 * Test doubles for the ports of KVCR: a clock, a network and a fabric that do nothing by themselves when a test wants
 * to be in charge.
 *
 * ```ts
 * const clock = new ManualClock();
 * const network = new MemoryNetwork({ clock });
 * const fabric = new MemoryFabric({ clock });
 * const channel = network.channel("worker-a"); // endpoint memory://worker-a
 * const agent = fabric.agent("agent-a", { mode: "manual" });
 * clock.advance(5);
 * ```
 */
export { freePort } from "./free-port.js";
export * from "./manual-clock.js";
export * from "./memory-channel.js";
export * from "./memory-fabric.js";
export * from "./memory-network.js";
export * from "./scheduler.js";
export * from "./scripted-agent.js";
export * from "./scripted-channel.js";
export * from "./scripted-write.js";
export * from "./simulator/index.js";
export type { TransferAgentFactory } from "./suites/agent-rig.js";
export * from "./suites/control-channel.js";
export * from "./suites/key-adapter.js";
export type { SuiteRunner } from "./suites/runner.js";
export { transferAgentSuite } from "./suites/transfer-agent.js";
