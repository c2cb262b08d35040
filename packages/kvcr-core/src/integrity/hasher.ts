/** XXH64 over the pieces of a block: fast, well spread, and no protection against somebody who wants a collision. */
import type { XXHashAPI } from "xxhash-wasm";

/** Bytes hashed between two looks at the clock. */
const STEP_BYTES = 256 << 10;

/** Computes checksums piece by piece, so that the caller decides how much to do at a time. */
export class BlockHasher {
	readonly #api: XXHashAPI;

	private constructor(api: XXHashAPI) {
		this.#api = api;
	}

	/** Loads the algorithm (WebAssembly, no native code). */
	static async load(): Promise<BlockHasher> {
		const { default: xxhash } = await import("xxhash-wasm");
		return new BlockHasher(await xxhash());
	}

	/** Hashes all pieces in order, yielding after every few hundred KiB, and returns the 64-bit checksum. */
	*hash(pieces: readonly Uint8Array[]): Generator<number, bigint, void> {
		const state = this.#api.create64();
		for (const piece of pieces) {
			for (let at = 0; at < piece.byteLength; at += STEP_BYTES) {
				const step = piece.subarray(at, at + STEP_BYTES);
				state.update(step);
				yield step.byteLength;
			}
		}
		return state.digest();
	}
}
