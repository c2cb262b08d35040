/** KVCR as a secondary offloading tier of vLLM. */
export * from "./contract.js";
export type { VllmKvcrTierOptions, VllmKvcrTierStats } from "./options.js";
export { VllmKvcrTier } from "./tier.js";
