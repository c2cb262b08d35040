/** The reverse hash map: from router hashes back to full keys. */
export type { HashCandidate, HashStatus } from "./hash-lookup.js";
export {
	ReverseHashMap,
	type ReverseHashMapOptions,
	type ReverseHashMapStats,
} from "./reverse-hash-map.js";
export {
	inventoryFeed,
	MAX_TIERS,
	TIER_BITS,
	type TierMask,
} from "./tiers.js";
