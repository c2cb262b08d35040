import type { BlockMeta } from "../../ports/index.js";
import { BuiltInPolicy } from "./built-in-policy.js";

/** First in, first out: accesses do not matter. */
export class FifoPolicy extends BuiltInPolicy {
	override evictionScore(meta: BlockMeta): number {
		return meta.admittedAt;
	}
}
