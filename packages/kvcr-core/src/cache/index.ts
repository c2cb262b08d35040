/** Managed G2: pools, residencies, claims, eviction, policies, inventory. Knows nothing of peers or messages. */
export type { AdmissionOutcome, AdmissionRequest } from "./admission.js";
export type { CapacityTicket, CapacityWaiter } from "./capacity-queue.js";
export { InconsistentCacheError } from "./consistency.js";
export {
	ClaimError,
	PolicyError,
	ReentrantPolicyError,
	ResidencyStateError,
	SlotError,
} from "./errors.js";
export { MAX_LAYOUT_PIECES, poolOfLabel } from "./layout.js";
export { ManagedCache } from "./managed-cache.js";
export type {
	ManagedCacheOptions,
	ManagedCacheStats,
	Piece,
	PoolStats,
} from "./managed-cache-types.js";
export {
	BuiltInPolicy,
	FifoPolicy,
	FrequencyPolicy,
	type FrequencyPolicyOptions,
	LruPolicy,
} from "./policies/index.js";
export type { Residency, ResidencyState } from "./residency.js";
export type { PoolSpec } from "./slot-pool.js";
