/** What the map refuses, and that hashes are read the same way on every machine. */
import { InvalidArgumentError, type RouterHash } from "kvcr-core";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ReverseHashMap, TIER_BITS } from "../src/index.js";

const { DRAM } = TIER_BITS;

/** The error of a call, by the fields that say where it comes from. */
function refusal(call: () => unknown): unknown {
	try {
		call();
	} catch (error) {
		if (!(error instanceof InvalidArgumentError)) throw error;
		return [error.operation, error.argument, error.value];
	}
	return "accepted";
}

describe("arguments of the reverse hash map", () => {
	const map = new ReverseHashMap({ seed: 1 });
	const key = new Uint8Array(36).fill(1);
	map.add(key, DRAM);
	const none = undefined as never;

	it.each([
		["addHash", "a text of sixteen"],
		["addHash", new Array(32).fill(1)],
		["addHash", undefined],
		["removeHash", "a text of sixteen"],
		["removeHash", new Array(32).fill(1)],
		["removeHash", null],
	] as const)("%s refuses a source that is no bytes: %j", (call, source) => {
		const before = map.stats();
		expect(refusal(() => map[call](source as never, 0, 8, 0, DRAM))).toEqual([
			`ReverseHashMap.${call}`,
			"source",
			source,
		]);
		expect(map.stats()).toEqual(before);
	});

	it.each([-1, 0.5, Number.NaN, "0"])(
		"an offset of %j is refused",
		(offset) => {
			expect(
				refusal(() => map.addHash(key, offset as never, 8, 0, DRAM)),
			).toEqual(["ReverseHashMap.addHash", "offset", offset]);
		},
	);

	it.each([Number.NaN, -1, 0.5, 3, "1", undefined])(
		"expectHashes refuses to begin at %j",
		(from) => {
			expect(
				refusal(() => map.expectHashes([key, key], from as never)),
			).toEqual(["ReverseHashMap.expectHashes", "from", from]);
		},
	);

	it("expectHashes takes the end of the array, and refuses what is no array or no bytes", () => {
		expect(map.expectHashes([key, key], 2)).toBe(2);
		expect(refusal(() => map.expectHashes(none, 0))).toEqual([
			"ReverseHashMap.expectHashes",
			"hashes",
			undefined,
		]);
		expect(refusal(() => map.expectHashes([key, "x" as never], 0))).toEqual([
			"ReverseHashMap.expectHashes",
			"hashes[1]",
			"x",
		]);
	});

	it.each([
		["addMany", "keys", () => map.addMany(none, DRAM)],
		["removeMany", "keys", () => map.removeMany(none, DRAM)],
		["statusMany", "hashes", () => map.statusMany(none)],
		["lookupMany", "hashes", () => map.lookupMany(none)],
	])("%s refuses what is no array", (name, argument, call) => {
		expect(refusal(call)).toEqual([
			`ReverseHashMap.${name}`,
			argument,
			undefined,
		]);
	});

	it("names the call that would add to a retired tier", () => {
		const retiring = new ReverseHashMap();
		retiring.retireTiers(DRAM);
		expect(refusal(() => retiring.addHash(key, 0, 32, 0, DRAM))).toEqual([
			"ReverseHashMap.addHash",
			"tiers",
			DRAM,
		]);
	});

	it.each([null, 5, "seed"])("no options: %j", (options) => {
		expect(refusal(() => new ReverseHashMap(options as never))).toEqual([
			"new ReverseHashMap",
			"options",
			options,
		]);
	});

	it.each([Number.NaN, 0.5, "x", Number.POSITIVE_INFINITY, null, 1n])(
		"no seed: %s",
		(seed) => {
			expect(refusal(() => new ReverseHashMap({ seed } as never))).toEqual([
				"new ReverseHashMap",
				"options.seed",
				seed,
			]);
		},
	);
});

describe("a machine whose typed arrays have the high word first", () => {
	afterEach(() => {
		vi.unstubAllGlobals();
	});

	it("gives the same answers", () => {
		// An array of 64-bit words as such a machine would lay them out, seen through 32-bit ones.
		vi.stubGlobal(
			"BigUint64Array",
			class {
				constructor(length: number) {
					const words = new Uint32Array(2 * length);
					// biome-ignore lint/correctness/noConstructorReturn: only a proxy notices that an element is set
					return new Proxy(this, {
						get: (_, name) => (name === "buffer" ? words.buffer : undefined),
						set: (_, name, value: bigint) => {
							words[2 * Number(name)] = Number(value >> 32n);
							words[2 * Number(name) + 1] = Number(value & 0xffff_ffffn);
							return true;
						},
					});
				}
			},
		);
		const map = new ReverseHashMap();
		const key = new Uint8Array(36);
		new DataView(key.buffer).setBigUint64(24, 0x0123_4567_89ab_cdefn);
		map.add(key, DRAM);
		const hash = 0x0123_4567_89ab_cdefn as RouterHash;
		expect(map.lookup(hash)).toEqual(key);
		expect(map.status(hash)).toBe("unique");
		expect(map.lookupMany([1n as RouterHash, hash])).toEqual([
			"not_found",
			key,
		]);
	});
});
