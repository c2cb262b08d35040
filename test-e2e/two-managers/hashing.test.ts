import { expect, it } from "vitest";
import { blockHashes } from "./engine/hashing.js";

const FIRST =
	"32100771939df790649c8e934c9103059416980d3ee5eef1f37de3aac8566925";
const SECOND =
	"c5023d1cfca3aea7b79e33587e7c7a23b1be3495ef0e0648971c1d2ac0fe63f6";
const TOKENS = [1, 23, 24, 300, 70_000, 5, 6, 7, 8, 9, 10];

function hex(hashes: readonly Uint8Array[]): string[] {
	return hashes.map((hash) => Buffer.from(hash).toString("hex"));
}

const extra = (block: number) => (block === 0 ? ["lora-a", "salt"] : null);

// Computed with Python's hashlib over CBOR written by hand: NONE_HASH of seed "0", (parent, tokens, extra keys).
it("block hashes are chained over parent, tokens and extra keys as vLLM's sha256_cbor", () => {
	expect(hex(blockHashes(TOKENS, 5, extra, 32))).toEqual([FIRST, SECOND]);
});

it("anything that differs in a block changes its hash and those after it, and none before", () => {
	const base = hex(blockHashes(TOKENS, 5, extra, 32));
	const later = hex(blockHashes([...TOKENS.slice(0, 9), 0], 5, extra, 32));
	expect(later[0]).toBe(base[0]);
	expect(later[1]).not.toBe(base[1]);
	const salted = hex(blockHashes(TOKENS, 5, () => ["x"], 32));
	expect(salted[0]).not.toBe(base[0]);
	expect(salted[1]).not.toBe(base[1]);
});

it("the short variant has 16 bytes, and its chain is its own", () => {
	const short = hex(blockHashes(TOKENS, 5, extra, 16));
	expect(short.map((hash) => hash.length)).toEqual([32, 32]);
	expect(short[0]).not.toBe(FIRST.slice(0, 32));
});
