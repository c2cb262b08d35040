/**
 * How large a `hashes_resolved` gets. A full request of blocks with very many pieces could ask for more than one message
 * holds. The source then answers `lookup_failed` from there on, and the asker asks again for less at a time.
 */
import { MAX_CONTROL_MESSAGE_BYTES } from "../ports/control-channel.js";
import type { HashResult } from "../protocol/index.js";

/** Bytes of results in one reply at most, as estimated by {@link resultBytes}. Leaves room for a long header. */
export const MAX_REPLY_RESULT_BYTES = MAX_CONTROL_MESSAGE_BYTES - 16 * 1024;

/** From here on a `lookup_failed` after resolved hashes may mean that the reply was full. */
export const FULL_REPLY_BYTES = MAX_CONTROL_MESSAGE_BYTES / 2;

/** Upper bound for the encoded length of one result. */
export function resultBytes(result: HashResult): number {
	if (result.status !== "resolved") return 24;
	let bytes = 24 + result.key.byteLength;
	// Three bytes per UTF-16 unit at most, five in front, nine for the size.
	for (const label of result.labels) bytes += label.length * 3 + 14;
	return bytes;
}
