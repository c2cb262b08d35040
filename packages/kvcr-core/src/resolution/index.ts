/** Hash resolution: which full keys router hashes name at a source. */
export * from "./hash-resolver.js";
export * from "./hash-responder.js";
export type {
	ResolutionFailure,
	ResolutionListener,
	ResolutionResult,
} from "./resolution-op.js";
