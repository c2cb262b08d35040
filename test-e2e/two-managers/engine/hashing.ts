/**
 * Block hashes chained as vLLM chains them: the hash of a block covers its parent's hash, its token IDs and its extra keys,
 * serialized as canonical CBOR (`sha256_cbor`). The shorter variant keeps the first 16 of the 32 bytes: vLLM's own 16-byte
 * hashes use another function, which makes no difference to whoever is given the hashes.
 */
import { createHash } from "node:crypto";

/** Lengths of block hashes in vLLM, in bytes. */
export type HashBytes = 32 | 16;

/** What tells requests with equal tokens apart: LoRA name, cache salt. */
export type ExtraKeys = readonly string[] | null;

/** Start of every chain, from vLLM's `PYTHONHASHSEED`. */
const SEED = "0";

/**
 * Hashes of the full blocks of a sequence, in order; a partly filled block has none.
 * @param extraKeys Extra keys of a block, by its index.
 */
export function blockHashes(
	tokens: readonly number[],
	blockTokens: number,
	extraKeys: (block: number) => ExtraKeys,
	hashBytes: HashBytes,
): Uint8Array[] {
	const hashes: Uint8Array[] = [];
	let parent = digest(cborText(SEED), hashBytes);
	for (let at = 0; at + blockTokens <= tokens.length; at += blockTokens) {
		const block = tokens.slice(at, at + blockTokens);
		parent = digest(
			Buffer.concat([
				cborHead(4, 3),
				cborHead(2, parent.length),
				parent,
				cborHead(4, block.length),
				...block.map((token) => cborHead(0, token)),
				cborExtra(extraKeys(hashes.length)),
			]),
			hashBytes,
		);
		hashes.push(parent);
	}
	return hashes;
}

function digest(bytes: Uint8Array, hashBytes: HashBytes): Uint8Array {
	const full = createHash("sha256").update(bytes).digest();
	return new Uint8Array(full.subarray(0, hashBytes));
}

function cborExtra(extraKeys: ExtraKeys): Buffer {
	// CBOR null.
	if (extraKeys === null) return Buffer.of(0xf6);
	return Buffer.concat([
		cborHead(4, extraKeys.length),
		...extraKeys.map(cborText),
	]);
}

function cborText(text: string): Buffer {
	const bytes = Buffer.from(text);
	return Buffer.concat([cborHead(3, bytes.length), bytes]);
}

/** Major type and argument in the shortest form. */
function cborHead(major: number, value: number): Buffer {
	if (value < 24) return Buffer.of((major << 5) | value);
	if (value < 0x100) return Buffer.of((major << 5) | 24, value);
	if (value < 0x1_0000) {
		const head = Buffer.of((major << 5) | 25, 0, 0);
		head.writeUInt16BE(value, 1);
		return head;
	}
	const head = Buffer.of((major << 5) | 26, 0, 0, 0, 0);
	head.writeUInt32BE(value, 1);
	return head;
}
