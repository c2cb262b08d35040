/** Hint envelopes: what is accepted, and that everything else is refused whole, by field and value. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	composeKvHint,
	MAX_HINT_BYTES,
	MAX_HINT_HASHES,
	parseHintEnvelope,
	startsPlacement,
	stringifyKvHint,
} from "../src/hints/index.js";
import { InvalidHintError, KvcrError } from "../src/ports/index.js";
import { uint64 } from "./protocol-arbitraries.js";

const withRequest = { requestId: "r1" };

function envelope(payload: object, rest: object = {}): object {
	return {
		protocol_version: "0.1",
		message_id: "m",
		actions: [
			{
				action_id: "a",
				action_type: "kv.fetch",
				action_version: "1.0",
				payload: {
					source_control_endpoint: "tcp://10.0.0.7:17771",
					block_hashes: [1n],
					...payload,
				},
				...rest,
			},
		],
	};
}

function refusal(
	input: string | Uint8Array | object,
	context: { requestId?: string } = withRequest,
): InvalidHintError {
	try {
		parseHintEnvelope(input, context);
	} catch (error) {
		expect(error).toBeInstanceOf(InvalidHintError);
		return error as InvalidHintError;
	}
	return expect.unreachable("accepted");
}

describe("a hint envelope", () => {
	it("keeps hashes above 2^53 exactly, from text, bytes and objects", () => {
		const text = `{"protocol_version":"0.1","message_id":"m","actions":[{"action_id":"a","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://10.0.0.7:17771","block_hashes":[13835058055282163712,42,18446744073709551615,9007199254740993],"mode":"move","scope":"independent","allow_framework":false,"no_retain":true}}]}`;
		const expected = {
			messageId: "m",
			versionMismatches: [],
			actions: [
				{
					actionId: "a",
					source: "tcp://10.0.0.7:17771",
					hashes: [
						13835058055282163712n,
						42n,
						18446744073709551615n,
						9007199254740993n,
					],
					mode: "move",
					scope: "independent",
					allowFramework: false,
					noRetain: true,
				},
			],
		};
		expect(parseHintEnvelope(text)).toEqual(expected);
		expect(parseHintEnvelope(Buffer.from(text))).toEqual(expected);
		expect(
			parseHintEnvelope(
				envelope({
					block_hashes: [
						13835058055282163712n,
						42,
						18446744073709551615n,
						9007199254740993n,
					],
					mode: "move",
					scope: "independent",
					allow_framework: false,
					no_retain: true,
				}),
			),
		).toEqual(expected);
	});

	it("has copy, request scope and framework fallback as defaults", () => {
		expect(parseHintEnvelope(envelope({}), withRequest).actions[0]).toEqual({
			actionId: "a",
			source: "tcp://10.0.0.7:17771",
			hashes: [1n],
			mode: "copy",
			scope: "request",
			allowFramework: true,
			noRetain: false,
		});
	});

	it("collapses duplicates and keeps the order of first appearance", () => {
		const { actions } = parseHintEnvelope(
			envelope({ block_hashes: [5n, 3, 5, 3n, 4n, 5n] }),
			withRequest,
		);
		expect(actions[0]?.hashes).toEqual([5n, 3n, 4n]);
	});

	it("honors every kv.fetch action on its own and ignores unknown types", () => {
		const hint = composeKvHint({
			actions: [
				{ source: "a", hashes: [1n], mode: "move" },
				{ source: "b", hashes: [1n, 2n], scope: "independent" },
				{ hashes: [3n], allowFramework: false },
			],
		});
		const { actions } = parseHintEnvelope(
			{
				...hint,
				actions: [
					{ action_type: "kv.other", payload: 5 },
					...hint.actions,
					{ action_type: "" },
				],
			},
			withRequest,
		);
		expect(
			actions.map(({ source, hashes, mode, scope, allowFramework }) => ({
				source,
				hashes,
				mode,
				scope,
				allowFramework,
			})),
		).toEqual([
			{
				source: "a",
				hashes: [1n],
				mode: "move",
				scope: "request",
				allowFramework: true,
			},
			{
				source: "b",
				hashes: [1n, 2n],
				mode: "copy",
				scope: "independent",
				allowFramework: true,
			},
			{
				source: undefined,
				hashes: [3n],
				mode: "copy",
				scope: "request",
				allowFramework: false,
			},
		]);
	});

	it("reports version mismatches and reads on with the known schema", () => {
		const hint = {
			...envelope({}, { action_version: "2.0" }),
			protocol_version: "0.2",
		};
		expect(parseHintEnvelope(hint, withRequest).versionMismatches).toEqual([
			{ kind: "protocol_version", supported: "0.1", received: "0.2" },
			{ kind: "action_version", supported: "1.0", received: "2.0" },
		]);
	});

	it("needs a source when it starts placement", () => {
		const local = envelope({ source_control_endpoint: null });
		expect(
			parseHintEnvelope(local, withRequest).actions[0]?.source,
		).toBeUndefined();
		expect(refusal(local, {}).field).toBe(
			"actions[0].payload.source_control_endpoint",
		);
		expect(
			refusal(
				envelope({
					source_control_endpoint: undefined,
					scope: "independent",
				}),
			).field,
		).toBe("actions[0].payload.source_control_endpoint");
	});

	it("starts placement in independent scope or without a request", () => {
		const request = parseHintEnvelope(envelope({}), withRequest).actions[0];
		const independent = parseHintEnvelope(
			envelope({ scope: "independent" }),
			withRequest,
		).actions[0];
		if (request === undefined || independent === undefined)
			return expect.unreachable();
		expect(startsPlacement(request, "r")).toBe(false);
		expect(startsPlacement(request, undefined)).toBe(true);
		expect(startsPlacement(independent, "r")).toBe(true);
	});

	const payload = "actions[0].payload";
	it.each<[string, object, string, unknown]>([
		["an empty list", { block_hashes: [] }, `${payload}.block_hashes`, []],
		["no list", { block_hashes: "1" }, `${payload}.block_hashes`, "1"],
		[
			"a boolean hash",
			{ block_hashes: [1n, true] },
			`${payload}.block_hashes[1]`,
			true,
		],
		[
			"a negative hash",
			{ block_hashes: [-1] },
			`${payload}.block_hashes[0]`,
			-1,
		],
		[
			"a hash of 2^64",
			{ block_hashes: [2n ** 64n] },
			`${payload}.block_hashes[0]`,
			2n ** 64n,
		],
		[
			"an unsafe number",
			{ block_hashes: [2 ** 53] },
			`${payload}.block_hashes[0]`,
			2 ** 53,
		],
		["a fraction", { block_hashes: [1.5] }, `${payload}.block_hashes[0]`, 1.5],
		[
			"a hash as text",
			{ block_hashes: ["1"] },
			`${payload}.block_hashes[0]`,
			"1",
		],
		[
			"a nil hash",
			{ block_hashes: [null] },
			`${payload}.block_hashes[0]`,
			null,
		],
		["an unknown mode", { mode: "link" }, `${payload}.mode`, "link"],
		["a nil mode", { mode: null }, `${payload}.mode`, null],
		["an unknown scope", { scope: "global" }, `${payload}.scope`, "global"],
		[
			"a framework flag of 1",
			{ allow_framework: 1 },
			`${payload}.allow_framework`,
			1,
		],
		[
			"a nil framework flag",
			{ allow_framework: null },
			`${payload}.allow_framework`,
			null,
		],
		[
			"a retain flag as text",
			{ no_retain: "no" },
			`${payload}.no_retain`,
			"no",
		],
		[
			"an empty source",
			{ source_control_endpoint: "" },
			`${payload}.source_control_endpoint`,
			"",
		],
		[
			"a source that is no text",
			{ source_control_endpoint: 5 },
			`${payload}.source_control_endpoint`,
			5,
		],
	])("with %s is refused", (_what, fields, field, value) => {
		const error = refusal(envelope(fields));
		expect(error.field).toBe(field);
		expect(error.value).toEqual(value);
		expect(error.message).toContain(field);
		expect(error.code).toBe("ERR_KVCR_INVALID_HINT");
	});

	it.each([
		"9007199254740990.6",
		"9007199254740991.4",
		"4503599627370497.5",
		"1.00000000000000000001",
		"1.0",
		"1e3",
		"1e-400",
		"-1e-400",
		"-0.0",
		"1".repeat(65),
		"0.5",
	])("in text with the hash %s is refused instead of rounded", (hash) => {
		const text = stringifyKvHint(envelope({})).replace("[1]", `[1,${hash}]`);
		expect(refusal(text).field).toBe(`${payload}.block_hashes[1]`);
		expect(refusal(Buffer.from(text)).field).toBe(`${payload}.block_hashes[1]`);
	});

	it("is refused in the name of what was called", () => {
		expect(refusal({}).operation).toBe("parseHintEnvelope");
		expect(() => composeKvHint({ source: "", hashes: [1n] })).toThrow(
			/^composeKvHint: /,
		);
	});

	it.each<[string, string | object, string]>([
		["text that is no JSON", "{", "envelope"],
		["a JSON number", "5", "envelope"],
		["a JSON null", "null", "envelope"],
		["an array", [], "envelope"],
		["no actions", {}, "actions"],
		["actions that are no list", { actions: {} }, "actions"],
		["an empty list of actions", { actions: [] }, "actions"],
		[
			"no kv.fetch action",
			{ actions: [{ action_type: "kv.other" }] },
			"actions",
		],
		["an action that is no object", { actions: [5] }, "actions[0]"],
		["an action without type", { actions: [{}] }, "actions[0].action_type"],
		[
			"a fetch without payload",
			{ actions: [{ action_type: "kv.fetch" }] },
			"actions[0].payload",
		],
		[
			"a message ID that is no text",
			{ ...envelope({}), message_id: 5 },
			"message_id",
		],
	])("that is, or has, %s is refused", (_what, input, field) => {
		expect(refusal(input).field).toBe(field);
	});

	it("is refused whole when a later action is malformed", () => {
		const hint = composeKvHint({ source: "a", hashes: [1n] });
		const error = refusal({
			...hint,
			actions: [
				...hint.actions,
				{ action_type: "kv.fetch", payload: { block_hashes: [1n], mode: 3 } },
			],
		});
		expect(error.field).toBe("actions[1].payload.mode");
		expect(error.value).toBe(3);
	});

	it("in text refuses numbers that are no exact unsigned 64-bit integers", () => {
		const text = (hash: string) =>
			stringifyKvHint(envelope({})).replace("[1]", `[${hash}]`);
		expect(refusal(text("18446744073709551616")).value).toBe(2n ** 64n);
		expect(refusal(text("-1")).value).toBe(-1n);
		expect(refusal(text("1.8446744073709552e19")).value).toBe(2 ** 64);
		expect(refusal(text("1e999")).value).toBe(Number.POSITIVE_INFINITY);
		expect(refusal(text("9".repeat(500))).field).toBe(
			`${payload}.block_hashes[0]`,
		);
	});

	it("in bytes must be UTF-8", () => {
		expect(refusal(Uint8Array.of(0x22, 0xff, 0x22)).field).toBe("envelope");
	});

	it("is bounded in length, hashes and nesting", () => {
		expect(refusal(new Uint8Array(MAX_HINT_BYTES + 1).fill(0x20)).field).toBe(
			"envelope",
		);
		expect(
			refusal(
				envelope({ block_hashes: new Array(MAX_HINT_HASHES + 1).fill(1) }),
			).field,
		).toBe(`${payload}.block_hashes`);
		expect(refusal("[".repeat(100_000)).field).toBe("envelope");
	});

	it("takes nothing from prototypes, polluted or not", () => {
		const proto = Object.prototype as unknown as Record<string, unknown>;
		proto.mode = "move";
		try {
			expect(
				parseHintEnvelope(envelope({}), withRequest).actions[0]?.mode,
			).toBe("copy");
		} finally {
			delete proto.mode;
		}
		const text = stringifyKvHint(envelope({})).replace(
			'"payload":{',
			'"payload":{"__proto__":{"mode":"move"},',
		);
		expect(parseHintEnvelope(text, withRequest).actions[0]?.mode).toBe("copy");
	});

	it("that throws while it is read is refused", () => {
		const hostile = {
			get actions(): never {
				throw new Error("boom");
			},
		};
		expect(refusal(hostile).cause).toEqual(new Error("boom"));
	});

	it("never throws anything but InvalidHintError", () => {
		const field = fc.constantFrom(
			"actions",
			"action_type",
			"payload",
			"block_hashes",
			"mode",
			"scope",
			"kv.fetch",
			"request",
		);
		const value = fc.letrec((tie) => ({
			any: fc.oneof(
				{ maxDepth: 6 },
				fc.constant("kv.fetch"),
				fc.anything(),
				uint64,
				fc.array(tie("any"), { maxLength: 3 }),
				fc.dictionary(field, tie("any")),
			),
		})).any;
		const input = fc.oneof(
			value.filter((entry) => typeof entry === "object" && entry !== null),
			fc.string(),
			fc.uint8Array(),
		);
		fc.assert(
			fc.property(input, (hint) => {
				try {
					parseHintEnvelope(hint as object);
				} catch (error) {
					expect(error).toBeInstanceOf(InvalidHintError);
				}
			}),
			{ numRuns: 3_000 },
		);
	});
});

describe("composeKvHint", () => {
	it("writes text that reads back as what was asked", () => {
		fc.assert(
			fc.property(
				fc.record({
					source: fc.string({ minLength: 1, unit: "grapheme" }),
					hashes: fc.uniqueArray(uint64, { minLength: 1 }),
					mode: fc.constantFrom("copy" as const, "move" as const),
					scope: fc.constantFrom("request" as const, "independent" as const),
					allowFramework: fc.boolean(),
					noRetain: fc.boolean(),
					actionId: fc.string(),
				}),
				(action) => {
					const text = stringifyKvHint(composeKvHint(action));
					expect(parseHintEnvelope(text).actions).toEqual([action]);
				},
			),
			{ numRuns: 1_000 },
		);
	});

	it("refuses what a receiver would refuse", () => {
		expect(() => composeKvHint({ source: "a", hashes: [] })).toThrow(
			InvalidHintError,
		);
		expect(() => composeKvHint({ source: "a", hashes: [2 ** 53] })).toThrow(
			InvalidHintError,
		);
		expect(() => composeKvHint({ hashes: [1], scope: "independent" })).toThrow(
			InvalidHintError,
		);
		expect(() => composeKvHint({ actions: [] })).toThrow(InvalidHintError);
	});

	it.each([
		[undefined, "options"],
		[7, "options"],
		[{}, "block_hashes"],
		[{ source: "a", hashes: 7 }, "block_hashes"],
		[{ source: "a", hashes: {} }, "block_hashes"],
		[{ actions: 7 }, "actions"],
		[{ actions: [null] }, "actions[0]"],
		[{ actions: [{ hashes: [1n] }, {}] }, "actions[1].payload.block_hashes"],
		[{ source: "a", hashes: [1n], messageId: 7 }, "message_id"],
		[{ source: "a", hashes: [1n], mode: "steal" }, "mode"],
	])("names what is wrong in options no. %#", (options, argument) => {
		let error: unknown;
		try {
			composeKvHint(options as never);
		} catch (thrown) {
			error = thrown;
		}
		expect(error).toBeInstanceOf(KvcrError);
		expect((error as KvcrError).message).toContain(argument);
	});
});
