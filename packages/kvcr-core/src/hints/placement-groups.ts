/** From resolved hashes to fetches: validation against this side's adapter and pools, and grouping by layout. */
import { disregard } from "../ports/foreign.js";
import type { KeyAdapter } from "../ports/key-adapter.js";
import type { BlockKey, RouterHash } from "../ports/names.js";
import type { ResolvedHash } from "../protocol/index.js";

/** Keys in one fetch at most. */
export const MAX_KEYS_PER_GROUP = 256;

/** Pieces in one fetch at most (unless one block has more), so that its `start_write` stays well below 1 MiB. */
export const MAX_PIECES_PER_GROUP = 4_096;

/** Blocks of equal layout to be fetched together. Its arrays are of equal length. */
export interface BlockGroup {
	readonly layout: readonly string[];
	/** Bytes of one block. */
	readonly blockBytes: number;
	readonly keys: BlockKey[];
	readonly hashes: RouterHash[];
	/** What the source says its bytes hash to; undefined where it does not say. */
	readonly checksums: (bigint | undefined)[];
}

/** What validation needs to know. */
export interface ValidationRules {
	readonly adapter: KeyAdapter;
	/** Slot size of the pool a label belongs to; `undefined` when there is no such pool. */
	readonly slotBytes: (label: string) => number | undefined;
	/** Told of a hash that must not be fetched. */
	readonly rejected: (
		hash: RouterHash,
		outcome: "key_mismatch" | "layout_mismatch",
	) => void;
	/** Told what the adapter threw. */
	readonly onAdapterError: (error: unknown) => void;
}

/** A layout as it was judged. */
interface JudgedLayout {
	readonly sizes: readonly number[];
	/** Undefined: does not fit our pools. */
	readonly name: string | undefined;
	readonly blockBytes: number;
}

/** Validates resolved blocks and groups those that may be fetched. */
export function groupBlocks(
	hashes: readonly RouterHash[],
	results: readonly ResolvedHash[],
	rules: ValidationRules,
): BlockGroup[] {
	const groups: BlockGroup[] = [];
	const open = new Map<string, BlockGroup>();
	// The decoder makes equal layouts of one message one object, so most are judged once.
	const judged = new Map<readonly string[], JudgedLayout>();
	for (let i = 0; i < results.length; i++) {
		const hash = hashes[i] as RouterHash;
		const { key, labels, sizes, checksum } = results[i] as ResolvedHash;
		if (!hasHash(key, hash, rules)) {
			rules.rejected(hash, "key_mismatch");
			continue;
		}
		let layout = judged.get(labels);
		if (layout === undefined || layout.sizes !== sizes) {
			layout = judge(labels, sizes, rules);
			judged.set(labels, layout);
		}
		if (layout.name === undefined) {
			rules.rejected(hash, "layout_mismatch");
			continue;
		}
		let group = open.get(layout.name);
		if (group === undefined || group.keys.length >= keysPerGroup(labels)) {
			group = {
				layout: labels,
				blockBytes: layout.blockBytes,
				keys: [],
				hashes: [],
				checksums: [],
			};
			open.set(layout.name, group);
			groups.push(group);
		}
		group.keys.push(key);
		group.hashes.push(hash);
		group.checksums.push(checksum);
	}
	return groups;
}

/** Full-key identity: a key is only trusted if it has the hash that was asked for. */
function hasHash(
	key: BlockKey,
	hash: RouterHash,
	rules: ValidationRules,
): boolean {
	try {
		const decoded: unknown = rules.adapter.decode(key);
		disregard(decoded, rules.onAdapterError);
		return decoded === hash;
	} catch (error) {
		rules.onAdapterError(error);
		return false;
	}
}

function judge(
	labels: readonly string[],
	sizes: readonly number[],
	rules: ValidationRules,
): JudgedLayout {
	const fits = labels.every((label, i) => rules.slotBytes(label) === sizes[i]);
	return {
		sizes,
		name: fits && labels.length > 0 ? layoutName(labels) : undefined,
		blockBytes: sizes.reduce((sum, size) => sum + size, 0),
	};
}

/** A text that no other list of labels has. */
function layoutName(labels: readonly string[]): string {
	return labels.length === 1 ? `:${labels[0]}` : JSON.stringify(labels);
}

function keysPerGroup(labels: readonly string[]): number {
	return Math.max(
		1,
		Math.min(
			MAX_KEYS_PER_GROUP,
			Math.floor(MAX_PIECES_PER_GROUP / labels.length),
		),
	);
}
