/** A block key with its text, made once per call or message, so that maps need no further conversion. */
import type { BlockKey } from "../ports/index.js";
import {
	blockKey,
	InvalidArgumentError,
	keyText,
	MAX_BLOCK_KEY_BYTES,
} from "../ports/index.js";

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
 * The same for a key of the caller, which may use its bytes for something else after the call: they are copied, and the
 * text is that of the copy.
 */
export function ownKeyRef(key: BlockKey): KeyRef {
	return keyRef(new Uint8Array(key) as BlockKey);
}

/**
 * Checks one key of a list and pairs it with its text; the key stays the caller's.
 * @throws InvalidArgumentError naming `argument[index]`.
 */
export function listedKeyRef(
	key: Uint8Array,
	operation: string,
	argument: string,
	index: number,
): KeyRef {
	// The name of the argument is put together only for what is wrong: lists are long.
	const fine =
		key instanceof Uint8Array &&
		key.byteLength > 0 &&
		key.byteLength <= MAX_BLOCK_KEY_BYTES;
	return keyRef(
		fine
			? (key as BlockKey)
			: blockKey(key, operation, `${argument}[${index}]`),
	);
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
		const ref = ownKeyRef(listedKeyRef(key, operation, argument, index).key);
		index += 1;
		if (seen.has(ref.text)) continue;
		seen.add(ref.text);
		refs.push(ref);
	}
	return refs;
}
