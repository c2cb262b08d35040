/** The demo's key adapter: learns from inventory events which full keys a router hash names. */
import {
	AmbiguousHashError,
	type BlockKey,
	HashNotFoundError,
	type InventoryEvent,
	type KeyAdapter,
	keyText,
	type RouterHash,
	routerHash,
} from "kvcr-core";

export class DemoKeyAdapter implements KeyAdapter<BlockKey> {
	readonly #keys = new Map<RouterHash, Map<string, BlockKey>>();

	/** Follows the inventory; pass it as `inventorySink`. */
	readonly follow = (event: InventoryEvent): void => {
		for (const key of event.keys) {
			const hash = this.decode(key);
			const keys = this.#keys.get(hash) ?? new Map<string, BlockKey>();
			if (event.removed) keys.delete(keyText(key));
			else keys.set(keyText(key), key);
			if (keys.size === 0) this.#keys.delete(hash);
			else this.#keys.set(hash, keys);
		}
	};

	encode(key: BlockKey): BlockKey {
		return key;
	}

	decode(key: BlockKey): RouterHash {
		const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
		return routerHash(view.getBigUint64(key.byteLength - 8));
	}

	decodeFromRouter(hash: RouterHash): BlockKey {
		const keys = [...(this.#keys.get(hash)?.values() ?? [])];
		const [only] = keys;
		if (only === undefined) throw new HashNotFoundError(hash);
		if (keys.length > 1) throw new AmbiguousHashError(hash, keys.length);
		return only;
	}
}
