/** How far the parts of a key store may grow. The map sets nothing here; tests do, to reach a limit or to see a bad hash. */
import { hashWords, type WordHash } from "./mix.js";
import { WordPool } from "./word-pool.js";

/** See the comment at the top of this file. */
export interface StoreLimits {
	/** Where buffers come from. */
	readonly pool: WordPool;
	/** Page numbers of the key arena, the unused number 0 included. */
	readonly pages: number;
	/** Bits of a position that the table of router hashes may use. */
	readonly depth: number;
	/** The same for the index over keys that share a router hash. */
	readonly indexDepth: number;
	/** The hash of that index. */
	readonly hash: WordHash;
}

/** Limits of a store, `changed` in parts. The numbers are cut to what the layout of refs and positions allows. */
export function storeLimits(changed: Partial<StoreLimits>): StoreLimits {
	return {
		pool: new WordPool(),
		pages: Number.POSITIVE_INFINITY,
		depth: Number.POSITIVE_INFINITY,
		indexDepth: Number.POSITIVE_INFINITY,
		hash: hashWords,
		...changed,
	};
}
