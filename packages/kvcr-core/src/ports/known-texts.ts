/**
 * Texts that are expected within bytes: compared in place, where a decoder would build the same string anew every time.
 * For field names, of which every message and every hint has the same dozen.
 */

interface Known {
	readonly text: string;
	readonly bytes: Uint8Array;
}

/** See the comment at the top of this file. */
export class KnownTexts {
	/** By length. */
	readonly #known: Known[][] = [];

	/** @param texts in ASCII */
	constructor(texts: readonly string[]) {
		for (const text of texts) {
			this.#known[text.length] ??= [];
			this.#known[text.length]?.push({ text, bytes: Buffer.from(text) });
		}
	}

	/** Whether one of them is so long. */
	hasLength(length: number): boolean {
		return this.#known[length] !== undefined;
	}

	/** The text at `bytes[at, at + length)`, if it is one of these. */
	find(bytes: Uint8Array, at: number, length: number): string | undefined {
		for (const known of this.#known[length] ?? [])
			if (isAt(bytes, at, known.bytes)) return known.text;
		return undefined;
	}
}

/** Whether `expected` stands at `bytes[at]`. */
export function isAt(
	bytes: Uint8Array,
	at: number,
	expected: Uint8Array,
): boolean {
	for (let i = 0; i < expected.length; i++)
		if (bytes[at + i] !== expected[i]) return false;
	return true;
}
