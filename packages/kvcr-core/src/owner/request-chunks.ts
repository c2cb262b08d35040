/** Splits what is asked of a source into requests that fit a control message. */

/** One `start_write` at most, in keys and in estimated bytes: a control message carries 1 MiB, our metadata included. */
const MAX_KEYS = 4096;
const MAX_BYTES = 512 * 1024;
/** Bytes of a key, and of an element without its names, besides what they contain. */
const KEY_BYTES = 16;
const ELEMENT_BYTES = 64;

/**
 * Cuts a list into consecutive parts, each of them one request; a single entry that is too large is a part of its own.
 * @param keyOf Text of an entry's key. @param labelsOf Labels of the pieces asked for.
 * @param agentName Owner of the destination elements, named in each of them.
 */
export function requestChunks<T>(
	entries: readonly T[],
	keyOf: (entry: T) => string,
	labelsOf: (entry: T) => Iterable<string>,
	agentName: string,
): T[][] {
	const chunks: T[][] = [];
	let chunk: T[] = [];
	let bytes = 0;
	for (const entry of entries) {
		let size = keyOf(entry).length + KEY_BYTES;
		for (const label of labelsOf(entry))
			size += ELEMENT_BYTES + agentName.length + label.length;
		if (
			chunk.length > 0 &&
			(chunk.length >= MAX_KEYS || bytes + size > MAX_BYTES)
		) {
			chunks.push(chunk);
			chunk = [];
			bytes = 0;
		}
		chunk.push(entry);
		bytes += size;
	}
	if (chunk.length > 0) chunks.push(chunk);
	return chunks;
}
