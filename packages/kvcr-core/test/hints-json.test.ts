/** JSON with integers of any size, read exactly; checked against an independent lossless parser. */
import fc from "fast-check";
import { parse as losslessParse } from "lossless-json";
import { describe, expect, it } from "vitest";
import { stringifyKvHint } from "../src/hints/index.js";
import {
	JsonSyntaxError,
	MAX_JSON_NESTING,
	parseJson,
} from "../src/hints/json.js";
import { uint64 } from "./protocol-arbitraries.js";

const read = (text: string) => parseJson(Buffer.from(text));

/** Integers as bigint, the rest as number: what ours promises. */
const asPromised = (token: string) =>
	/^-?\d+$/.test(token) ? BigInt(token) : Number(token);

const json = fc.letrec((tie) => ({
	value: fc.oneof(
		{ maxDepth: 4 },
		fc.constant(null),
		fc.boolean(),
		fc.string({ unit: "binary" }),
		uint64,
		uint64.map((value) => -value),
		fc.bigInt({ min: 0n, max: 10n ** 60n }),
		fc.double({ noNaN: true, noDefaultInfinity: true }),
		fc.array(tie("value"), { maxLength: 6 }),
		fc.dictionary(
			fc.string().filter((key) => key !== "__proto__"),
			tie("value"),
			{ maxKeys: 5 },
		),
	),
})).value;

describe("the JSON reader", () => {
	it("agrees with a lossless parser on every document", () => {
		fc.assert(
			fc.property(json, fc.constantFrom("", " ", "\n\t"), (value, space) => {
				const text = stringifyKvHint([value]).replaceAll(
					/(?<=[[{])(?=[^"]*$)/g,
					space,
				);
				expect(read(text)).toEqual(losslessParse(text, null, asPromised));
			}),
			{ numRuns: 2_000 },
		);
	});

	it("keeps every unsigned 64-bit integer, alone and in lists", () => {
		fc.assert(
			fc.property(
				fc.array(uint64, { minLength: 1 }),
				fc.constantFrom(",", " , ", ",\n", " ,"),
				(hashes, separator) => {
					expect(read(`[ ${hashes.join(separator)} ]`)).toEqual(hashes);
				},
			),
			{ numRuns: 1_000 },
		);
	});

	it("agrees with JSON.parse on what is not JSON", () => {
		const alphabet = fc.constantFrom(
			...'[]{}:,"\\0123456789.-+eEtrufalsn /\u00e9',
		);
		fc.assert(
			fc.property(fc.string({ unit: alphabet, maxLength: 12 }), (text) => {
				let valid = true;
				try {
					JSON.parse(text);
				} catch {
					valid = false;
				}
				if (valid) read(text);
				else expect(() => read(text)).toThrow(JsonSyntaxError);
			}),
			{ numRuns: 3_000 },
		);
	});

	it.each([
		["[1,]", 3],
		["[01]", 1],
		["[18446744073709551615 1]", 22],
		['{"a":1', 6],
		['{"a" 1}', 5],
		["nul", 0],
		['"a', 0],
		["", 0],
		["[1]]", 3],
		["-", 0],
		["[1.]", 1],
		['["\n"]', 1],
	])("refuses %j at offset %i", (text, offset) => {
		try {
			read(text);
			expect.unreachable();
		} catch (error) {
			expect(error).toBeInstanceOf(JsonSyntaxError);
			expect((error as JsonSyntaxError).offset).toBe(offset);
		}
	});

	it("bounds nesting", () => {
		const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
		expect(() => read(nested(MAX_JSON_NESTING))).not.toThrow();
		expect(() => read(nested(MAX_JSON_NESTING + 1))).toThrow(/nesting/);
		expect(() => read("[".repeat(1_000_000))).toThrow(/nesting/);
	});

	it("does not spend quadratic time on one endless integer", () => {
		const value = read("9".repeat(1_000_000));
		expect(value).toBe(Number.POSITIVE_INFINITY);
	});

	it("treats __proto__ as a key like any other", () => {
		const value = read('{"__proto__":{"polluted":1}}') as object;
		expect(Object.keys(value)).toEqual(["__proto__"]);
		expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
		expect((value as { polluted?: unknown }).polluted).toBeUndefined();
	});
});
