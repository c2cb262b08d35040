/** A block key with its text, made once per call or message, so that maps need no further conversion. */
import type { BlockKey } from "../ports/index.js";
import { blockKey, InvalidArgumentError, keyText } from "../ports/index.js";

/** A key and its text form. */
export interface KeyRef {
	readonly key: BlockKey;
	readonly text: string;
}

/** Pairs a checked key with its text. */
export function keyRef(key: BlockKey): KeyRef {
	return { key, text: keyText(key) };
}

/**
 * Checks the keys of a call. Equal keys collapse; the order of first appearance is kept.
 * @throws InvalidArgumentError naming the first bad key.
 */
export function keyRefs(
	keys: Iterable<Uint8Array>,
	operation: string,
	argument: string,
): KeyRef[] {
	if (
		typeof keys !== "object" ||
		keys === null ||
		!(Symbol.iterator in keys) ||
		keys instanceof Uint8Array
	) {
		throw new InvalidArgumentError(
			operation,
			argument,
			keys,
			"an iterable of block keys",
		);
	}
	const seen = new Set<string>();
	const refs: KeyRef[] = [];
	let index = 0;
	for (const key of keys) {
		const ref = keyRef(blockKey(key, operation, `${argument}[${index}]`));
		index += 1;
		if (seen.has(ref.text)) continue;
		seen.add(ref.text);
		refs.push(ref);
	}
	return refs;
}
