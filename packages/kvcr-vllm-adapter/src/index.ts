/**
 * KVCR for vLLM: what its block keys mean, and the map from router hashes back to full keys that its KV cache events
 * feed. The intake of those events is the entry point `kvcr-vllm-adapter/events`.
 *
 * @packageDocumentation
 */
export * from "./errors.js";
export {
	ROUTER_HINT_CAPABILITY,
	type VllmKey,
	VllmKeyAdapter,
	type VllmKeyAdapterOptions,
} from "./key-adapter.js";
export * from "./manager/index.js";
export * from "./reverse-map/index.js";
