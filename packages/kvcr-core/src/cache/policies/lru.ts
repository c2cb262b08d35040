import type { BlockMeta } from "../../ports/index.js";
import { BuiltInPolicy } from "./built-in-policy.js";

/** Least recently used goes first. The default. */
export class LruPolicy extends BuiltInPolicy {
	override evictionScore(meta: BlockMeta): number {
		return meta.lastAccess;
	}
}
