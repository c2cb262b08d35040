/** The reverse hash map: from router hashes back to full keys. */
export {
	type HashCandidate,
	type HashStatus,
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
