/** The reverse hash map as a plain nested map: slow, obvious, and the judge of the real one. */
import { keyText, type RouterHash } from "kvcr-core";
import type { HashStatus } from "../../src/index.js";

/** Router hash of a key, by the rule of vLLM: the block hash as a big integer, cut to its low 64 bits. */
export function modelHash(key: Uint8Array): RouterHash {
	const hash = Buffer.from(key.buffer, key.byteOffset, key.length - 4);
	return BigInt.asUintN(64, BigInt(`0x${hash.toString("hex")}`)) as RouterHash;
}

export class MapModel {
	readonly hashes = new Map<bigint, Map<string, Set<number>>>();
	keys = 0;

	add(key: Uint8Array, tiers: number): boolean {
		const hash = modelHash(key);
		let keys = this.hashes.get(hash);
		if (keys === undefined) {
			keys = new Map();
			this.hashes.set(hash, keys);
		}
		let present = keys.get(keyText(key));
		if (present === undefined) {
			present = new Set();
			keys.set(keyText(key), present);
			this.keys++;
		}
		const before = present.size;
		for (const tier of tierList(tiers)) present.add(tier);
		return present.size > before;
	}

	remove(key: Uint8Array, tiers: number): boolean {
		const hash = modelHash(key);
		const keys = this.hashes.get(hash);
		const present = keys?.get(keyText(key));
		if (keys === undefined || present === undefined) return false;
		let removed = false;
		for (const tier of tierList(tiers))
			removed = present.delete(tier) || removed;
		if (present.size === 0) {
			keys.delete(keyText(key));
			this.keys--;
			if (keys.size === 0) this.hashes.delete(hash);
		}
		return removed;
	}

	retire(tiers: number): void {
		for (const [hash, keys] of this.hashes) {
			for (const [text, present] of keys) {
				for (const tier of tierList(tiers)) present.delete(tier);
				if (present.size > 0) continue;
				keys.delete(text);
				this.keys--;
			}
			if (keys.size === 0) this.hashes.delete(hash);
		}
	}

	clear(): void {
		this.hashes.clear();
		this.keys = 0;
	}

	tiersOf(key: Uint8Array): number {
		const present = this.hashes.get(modelHash(key))?.get(keyText(key));
		let mask = 0;
		for (const tier of present ?? []) mask |= 1 << tier;
		return mask >>> 0;
	}

	status(hash: bigint): HashStatus {
		const keys = this.hashes.get(hash);
		if (keys === undefined) return "not_found";
		return keys.size === 1 ? "unique" : "ambiguous_hash";
	}

	/** Text of the one key of a hash, `undefined` where there is none or more than one. */
	unique(hash: bigint): string | undefined {
		const keys = this.hashes.get(hash);
		return keys?.size === 1 ? [...keys.keys()][0] : undefined;
	}
}

function tierList(mask: number): number[] {
	const tiers: number[] = [];
	for (let tier = 0; tier < 32; tier++)
		if ((mask & (1 << tier)) !== 0) tiers.push(tier);
	return tiers;
}

/** A small repeatable generator (xorshift): integers of 0 to 2^32-1. */
export function randomSource(seed: number): (below: number) => number {
	let state = seed | 0 || 1;
	return (below) => {
		state ^= state << 13;
		state ^= state >>> 17;
		state ^= state << 5;
		return (state >>> 0) % below;
	};
}
