/** The example of docs/adapter-guide.md, which shows this file without this line. */
import {
	AmbiguousHashError,
	type BlockKey,
	blockKey,
	HashNotFoundError,
	InvalidArgumentError,
	type InventoryEvent,
	type KeyAdapter,
	keyFromText,
	keyText,
	type RouterHash,
} from "kvcr-core";

/** How the engine names a block. */
export interface EngineKey {
	readonly contentHash: Uint8Array; // 32 bytes
	readonly layer: number; // unsigned 32 bits
}

export class EngineKeyAdapter implements KeyAdapter<EngineKey> {
	/** Keys by router hash, as text: byte arrays are no map keys. Each with the tiers it is in. */
	readonly #keys = new Map<RouterHash, Map<string, Set<string>>>();

	encode({ contentHash, layer }: EngineKey): BlockKey {
		if (contentHash.length !== 32 || layer >>> 0 !== layer)
			throw new InvalidArgumentError("encode", "key", layer, "32 + 4 bytes");
		const bytes = new Uint8Array(36);
		bytes.set(contentHash);
		new DataView(bytes.buffer).setUint32(32, layer);
		return blockKey(bytes);
	}

	decode(key: BlockKey): RouterHash {
		const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
		return view.getBigUint64(0) as RouterHash; // big-endian, never through a number
	}

	decodeFromRouter(hash: RouterHash): BlockKey {
		const keys = [...(this.#keys.get(hash)?.keys() ?? [])];
		if (keys.length > 1) throw new AmbiguousHashError(hash, keys.length);
		if (keys[0] === undefined) throw new HashNotFoundError(hash);
		return keyFromText(keys[0]);
	}

	/** Give this to core as its inventory sink. */
	readonly inventory = ({ keys, tier, removed }: InventoryEvent): void => {
		for (const key of keys) {
			const hash = this.decode(key);
			const known = this.#keys.get(hash) ?? new Map<string, Set<string>>();
			const tiers = known.get(keyText(key)) ?? new Set();
			if (removed) tiers.delete(tier);
			else tiers.add(tier);
			if (tiers.size > 0) known.set(keyText(key), tiers);
			else known.delete(keyText(key));
			if (known.size > 0) this.#keys.set(hash, known);
			else this.#keys.delete(hash);
		}
	};
}
