/** What the built-in policies have in common. Also a convenient base for a policy of one's own. */
import type {
	BlockMeta,
	IngestSource,
	KVCachePolicy,
	PlacementFailure,
} from "../../ports/index.js";

/**
 * Admits everything, evicts whatever has the lowest score. When slots are short a fetch waits, because somebody
 * needs its result; a deposit fails, because the framework still has the bytes.
 */
export abstract class BuiltInPolicy implements KVCachePolicy {
	abstract evictionScore(meta: BlockMeta): number;

	decideIngest(_meta: BlockMeta, _source: IngestSource): "keep" | "drop" {
		return "keep";
	}

	decideEviction(_meta: BlockMeta): "evict" | "keep" {
		return "evict";
	}

	decideRecovery(failure: PlacementFailure): "fail" | "wait" {
		return failure.source === "fetch" ? "wait" : "fail";
	}
}
