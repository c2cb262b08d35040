/**
 * The reverse hash map against a plain nested map, over millions of steps and with hashes chosen to hurt.
 *
 * KVCR_MAP_STEPS sets the number of steps (default 2,000,000); KVCR_MAP_SEED repeats a run.
 */
import fc from "fast-check";
import { type BlockKey, keyText, type RouterHash } from "kvcr-core";
import { describe, expect, it } from "vitest";
import { ReverseHashMap } from "../src/index.js";
import { MapModel, modelHash, randomSource } from "./support/map-model.js";

const STEPS = Number(process.env.KVCR_MAP_STEPS ?? 2_000_000);
const SEED = Number(process.env.KVCR_MAP_SEED ?? Date.now() % 0x7fff_ffff);
/** Steps of one round: grow, shrink, sweep, compare everything. */
const ROUND = 100_000;
const MINUTES = 60_000;

interface Family {
	readonly name: string;
	/** Key number `n`: the same number always gives the same key. */
	readonly key: (n: number) => Uint8Array;
	/** How many different keys there are. */
	readonly keys: number;
}

function bytes(length: number, words: (at: number) => number): Uint8Array {
	const key = Buffer.alloc(length);
	for (let at = 0; at + 4 <= length - 12; at += 4)
		key.writeInt32BE(words(at) | 0, at);
	return new Uint8Array(key);
}

function withHash(key: Uint8Array, high: number, low: number, group: number) {
	const view = new DataView(key.buffer);
	view.setInt32(key.length - 12, high | 0);
	view.setInt32(key.length - 8, low | 0);
	view.setInt32(key.length - 4, group | 0);
	return key;
}

const scatter = (n: number) => Math.imul(n ^ (n >>> 7), 0x9e3779b1);

const FAMILIES: readonly Family[] = [
	{
		name: "scattered hashes of 32 bytes",
		keys: 60_000,
		key: (n) =>
			withHash(
				bytes(36, (at) => n + at),
				scatter(n),
				scatter(n + 1),
				0,
			),
	},
	{
		name: "four cache groups of 16-byte hashes",
		keys: 60_000,
		key: (n) => {
			const hash = n >>> 2;
			return withHash(
				bytes(20, () => hash),
				scatter(hash),
				hash,
				n & 3,
			);
		},
	},
	{
		name: "equal low bits",
		keys: 60_000,
		key: (n) =>
			withHash(
				bytes(36, () => n),
				n << 16,
				0xabcd_ef01,
				0,
			),
	},
	{
		name: "only the top bits of both words differ",
		keys: 1 << 16,
		key: (n) =>
			withHash(
				bytes(36, () => 0),
				n << 24,
				(n >>> 8) << 24,
				0,
			),
	},
	{
		name: "all zero or all ones, distinguished by the rest of the hash",
		keys: 40_000,
		key: (n) =>
			withHash(
				bytes(36, () => n >>> 1),
				-(n & 1),
				-(n & 1),
				0,
			),
	},
	{
		name: "all zero, distinguished by the group alone",
		keys: 40_000,
		key: (n) =>
			withHash(
				bytes(12, () => 0),
				0,
				0,
				n,
			),
	},
	{
		name: "mixed lengths that are prefixes of each other",
		keys: 60_000,
		key: (n) =>
			withHash(
				bytes(12 + (n % 41), () => 0),
				scatter(n >>> 5) & 0xff,
				n >>> 8,
				0,
			),
	},
	{
		name: "few hashes, many keys each",
		keys: 60_000,
		key: (n) =>
			withHash(
				bytes(36, () => n),
				0,
				n % 4000,
				n & 1,
			),
	},
];

/** Compares everything both hold. */
function compare(map: ReverseHashMap, model: MapModel): void {
	const hashes = [...model.hashes.keys()] as RouterHash[];
	const answers = map.lookupMany(hashes);
	const statuses = map.statusMany(hashes);
	// Millions of comparisons: a plain condition each.
	for (const [i, hash] of hashes.entries()) {
		if (statuses[i] !== model.status(hash))
			throw new Error(`status of ${hash} is ${statuses[i]}`);
		const answer = answers[i] as BlockKey | string;
		const found =
			typeof answer === "string" ? answer : `key ${keyText(answer)}`;
		const unique = model.unique(hash);
		if (found !== (unique === undefined ? "ambiguous_hash" : `key ${unique}`))
			throw new Error(`look-up of ${hash} gave ${found}`);
		const keys = model.hashes.get(hash) ?? new Map<string, Set<number>>();
		const candidates = map.candidates(hash);
		if (candidates.length !== keys.size)
			throw new Error(`candidates of ${hash}`);
		for (const { key, tiers } of candidates)
			if (tiers !== model.tiersOf(key)) throw new Error(`tiers of ${hash}`);
	}
	const stats = map.stats();
	expect(stats.keys).toBe(model.keys);
	expect(stats.hashes).toBe(model.hashes.size);
}

function round(
	map: ReverseHashMap,
	model: MapModel,
	family: Family,
	random: (below: number) => number,
	steps: number,
): void {
	// Phases with more removals than additions make segments join and long lists become short.
	const removals = 20 + random(60);
	for (let step = 0; step < steps; step++) {
		const key = family.key(random(family.keys));
		const tier = 1 << random(4);
		const removing = random(100) < removals;
		const news = removing ? map.remove(key, tier) : map.add(key, tier);
		const expected = removing ? model.remove(key, tier) : model.add(key, tier);
		if (news !== expected)
			throw new Error(`${removing ? "remove" : "add"} gave ${news}`);
		if ((step & 7) === 0) {
			const probe = family.key(random(family.keys));
			const hash = modelHash(probe);
			if (map.status(hash) !== model.status(hash))
				throw new Error(`status of ${hash} is ${map.status(hash)}`);
			if (map.tiersOf(probe) !== model.tiersOf(probe))
				throw new Error(`tiers of ${hash} are ${map.tiersOf(probe)}`);
		}
	}
}

/** Retires a tier, with changes to the others while the sweep is under way. */
function sweep(
	map: ReverseHashMap,
	model: MapModel,
	family: Family,
	random: (below: number) => number,
): void {
	const retired = 1 << random(4);
	map.retireTiers(retired);
	model.retire(retired);
	let more = true;
	while (more) {
		more = map.sweep(1 + random(500));
		for (let i = 0; i < 20; i++) {
			const key = family.key(random(family.keys));
			const hash = modelHash(key);
			if (map.status(hash) !== model.status(hash))
				throw new Error(
					`status of ${hash} during a sweep is ${map.status(hash)}`,
				);
			const tier = 1 << random(4);
			if (tier === retired) continue;
			if (map.add(key, tier) !== model.add(key, tier))
				throw new Error("add during a sweep");
			const other = family.key(random(family.keys));
			if (map.remove(other, tier) !== model.remove(other, tier))
				throw new Error("remove during a sweep");
		}
	}
}

describe("reverse hash map against a plain nested map", () => {
	const steps = Math.ceil(STEPS / FAMILIES.length);
	for (const [index, family] of FAMILIES.entries()) {
		it(`agrees over ${steps} steps: ${family.name} (seed ${SEED})`, {
			timeout: 10 * MINUTES + steps,
		}, () => {
			const random = randomSource(SEED + index);
			const map = new ReverseHashMap({ seed: SEED + index });
			const model = new MapModel();
			for (let done = 0; done < steps; done += ROUND) {
				round(map, model, family, random, Math.min(ROUND, steps - done));
				compare(map, model);
				sweep(map, model, family, random);
				compare(map, model);
				if (random(8) === 0) {
					map.clear();
					model.clear();
				}
			}
			// Emptied key by key, nothing is left over.
			for (const keys of [...model.hashes.values()])
				for (const text of [...keys.keys()]) {
					const key = new Uint8Array(Buffer.from(text, "latin1"));
					expect(map.remove(key, 0b1111)).toBe(true);
				}
			expect(map.stats()).toMatchObject({
				keys: 0,
				hashes: 0,
				collidingKeys: 0,
			});
			expect(map.stats().bytes).toBeLessThan(2_000_000);
		});
	}

	it("agrees over short histories of a few keys", () => {
		const step = fc.record({
			kind: fc.constantFrom("add", "add", "remove", "clear", "retire"),
			length: fc.constantFrom(12, 13, 20, 36),
			fill: fc.integer({ min: 0, max: 12 }),
			hash: fc.integer({ min: 0, max: 1 }),
			tiers: fc.integer({ min: 1, max: 3 }),
		});
		fc.assert(
			fc.property(fc.array(step, { maxLength: 120 }), (history) => {
				const map = new ReverseHashMap({ seed: 1 });
				const model = new MapModel();
				for (const { kind, length, fill, hash, tiers } of history) {
					const key = withHash(
						bytes(length, () => fill),
						0,
						hash,
						fill,
					);
					if (kind === "add")
						expect(map.add(key, tiers)).toBe(model.add(key, tiers));
					else if (kind === "remove")
						expect(map.remove(key, tiers)).toBe(model.remove(key, tiers));
					else if (kind === "clear") {
						map.clear();
						model.clear();
					} else {
						map.retireTiers(tiers);
						while (map.sweep(1));
						model.retire(tiers);
					}
					for (const probe of [0n, 1n] as RouterHash[])
						expect(map.status(probe)).toBe(model.status(probe));
				}
				compare(map, model);
			}),
			{ numRuns: 300 },
		);
	});
});
