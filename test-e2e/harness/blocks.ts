/** Keys and bytes of e2e tests: every process computes them, so bytes can be compared wherever they end up. */
import {
	AmbiguousHashError,
	type BlockKey,
	blockKey,
	HashNotFoundError,
	type KeyAdapter,
	keyText,
	type RouterHash,
	routerHash,
} from "kvcr-core";

/** A key of 36 bytes whose last 8 are its router hash; `salt` makes keys that collide. */
export function key(hash: bigint, salt = 0): BlockKey {
	const bytes = Buffer.alloc(36, 0xa5);
	bytes.writeUInt32BE(salt, 0);
	bytes.writeBigUInt64BE(hash, 28);
	return blockKey(new Uint8Array(bytes));
}

/** Recognizable bytes for one piece of a block. */
export function pieceBytes(
	block: Uint8Array,
	piece: number,
	length: number,
): Uint8Array {
	let state = 2_166_136_261 ^ (piece + 1);
	for (const byte of block) state = Math.imul(state ^ byte, 16_777_619) >>> 0;
	const words = new Uint32Array(Math.ceil(length / 4));
	for (let i = 0; i < words.length; i += 1) {
		state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
		words[i] = state;
	}
	return new Uint8Array(words.buffer, 0, length);
}

/** Knows the keys it was told of: by inventory, or by a test. */
export class ListAdapter implements KeyAdapter<BlockKey> {
	readonly #known = new Map<bigint, Map<string, BlockKey>>();
	/** Look-ups so far. */
	lookups = 0;

	learn(keys: Iterable<Uint8Array>): void {
		for (const one of keys) {
			const hash = this.decode(one as BlockKey);
			const keysOfHash = this.#known.get(hash) ?? new Map<string, BlockKey>();
			keysOfHash.set(keyText(one), one as BlockKey);
			this.#known.set(hash, keysOfHash);
		}
	}

	forget(keys: Iterable<Uint8Array>): void {
		for (const one of keys)
			this.#known.get(this.decode(one as BlockKey))?.delete(keyText(one));
	}

	encode(frameworkKey: BlockKey): BlockKey {
		return frameworkKey;
	}

	decode(one: BlockKey): RouterHash {
		const view = new DataView(one.buffer, one.byteOffset, one.byteLength);
		return routerHash(view.getBigUint64(one.byteLength - 8));
	}

	decodeFromRouter(hash: RouterHash): BlockKey {
		this.lookups += 1;
		const keys = [...(this.#known.get(hash)?.values() ?? [])];
		const [only] = keys;
		if (only === undefined) throw new HashNotFoundError(hash);
		if (keys.length > 1) throw new AmbiguousHashError(hash, keys.length);
		return only;
	}
}
