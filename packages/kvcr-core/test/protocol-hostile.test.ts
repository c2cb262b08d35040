/** Network bytes are hostile: whatever arrives, one error class comes out, and little memory is touched. */
import { Decoder, encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	MAX_BLOCK_KEY_BYTES,
	MAX_CONTROL_MESSAGE_BYTES,
	MalformedMessageError,
	type OpHandle,
} from "../src/ports/index.js";
import {
	decodeControlMessage,
	decodeNotification,
	encodeControlMessage,
	encodeWriteDone,
	MAX_HASHES_PER_MESSAGE,
	MAX_KEYS_PER_WRITE,
	MAX_METADATA_BYTES,
	MAX_NESTING,
	MAX_STRING_BYTES,
	MalformedHashesResolvedError,
	MalformedStartWriteError,
} from "../src/protocol/index.js";
import { structureFault } from "../src/protocol/structure.js";
import { controlMessage } from "./protocol-arbitraries.js";

const pack = (value: unknown) => encode(value, { useBigInt64: true });
const incarnation = "0123456789abcdef0123456789abcdef";
const header = {
	target_agent: "target",
	sender_incarnation: incarnation,
	sender_control_endpoint: "tcp://t:1",
	source_control_endpoint: "tcp://s:1",
};
const key = Uint8Array.of(1);
const element = {
	end_point_name: "target",
	element_index: 0,
	label: "kv",
	framework: false,
};
const region = {
	mem_type: "DRAM",
	device_Id: 0,
	addr: 4096,
	stride: 0,
	count: 4,
	size: 16,
	label: "kv",
};
const metadata = {
	target_agent_metadata: Uint8Array.of(1),
	target_regions: [{}, { kv: region }],
};
const startWrite = {
	type: "start_write",
	op_handle: -5,
	remaining_timeout_ms: 12.5,
	source_incarnation: null,
	keys: [key],
	dst_descriptors: [[element]],
	allow_layout_subset: false,
	...header,
};
const hashesResolved = {
	type: "hashes_resolved",
	resolution_id: 9,
	results: [["resolved", key, ["kv"], [16]], ["not_found"]],
	...header,
};

/** Decodes what must be refused. */
function refusal(bytes: Uint8Array): MalformedMessageError {
	try {
		const message = decodeControlMessage(bytes);
		return expect.unreachable(`accepted as ${message?.type}`);
	} catch (error) {
		expect(error).toBeInstanceOf(MalformedMessageError);
		return error as MalformedMessageError;
	}
}

/** True when decoding gave a message, nothing, or the one error it may give. */
function survives(bytes: Uint8Array): boolean {
	try {
		decodeControlMessage(bytes);
	} catch (error) {
		if (!(error instanceof MalformedMessageError)) throw error;
	}
	decodeNotification(bytes);
	return true;
}

describe("a decoder of hostile bytes", () => {
	it("gives nothing but messages and MalformedMessageError for random bytes", () => {
		fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), survives), {
			numRuns: 5_000,
		});
	});

	it("gives nothing else for valid messages with bytes changed, cut out or put in", () => {
		const change = fc.record({
			at: fc.nat(),
			cut: fc.nat(3),
			put: fc.uint8Array({ maxLength: 3 }),
		});
		fc.assert(
			fc.property(
				controlMessage.map(encodeControlMessage),
				fc.array(change, { minLength: 1, maxLength: 4 }),
				(message, changes) => {
					let bytes = Buffer.from(message);
					for (const { at, cut, put } of changes) {
						const from = at % bytes.length;
						bytes = Buffer.concat([
							bytes.subarray(0, from),
							put,
							bytes.subarray(from + cut),
						]);
						if (bytes.length === 0) return;
					}
					survives(bytes);
				},
			),
			{ numRuns: 3_000 },
		);
	});

	it("gives nothing else for well-formed maps of the wrong values", () => {
		const field = fc.constantFrom(
			...Object.keys({ ...startWrite, ...hashesResolved, ...metadata }),
			"terminal",
			"hashes",
			"mode",
			"allow_framework",
			"dead_incarnation",
		);
		const type = fc.constantFrom(
			"start_write",
			"hashes_resolved",
			"resolve_hashes",
			"write_probe",
			"write_probe_ack",
			"write_refused",
			"target_metadata",
			"target_metadata_ack",
			"other",
		);
		const value = fc.letrec((tie) => ({
			any: fc.oneof(
				{ maxDepth: 5 },
				fc.constantFrom(
					null,
					true,
					false,
					"",
					"target",
					incarnation,
					0,
					-1,
					1.5,
					Number.NaN,
					2n ** 64n - 1n,
				),
				fc.uint8Array({ maxLength: 4 }),
				fc.array(tie("any"), { maxLength: 3 }),
				fc.dictionary(fc.string({ maxLength: 4 }), tie("any"), { maxKeys: 2 }),
			),
		})).any;
		fc.assert(
			fc.property(
				type,
				fc.dictionary(field, value),
				fc.boolean(),
				(name, fields, keepValid) => {
					survives(
						pack({
							...(keepValid ? { ...startWrite, ...hashesResolved } : {}),
							...fields,
							type: name,
						}),
					);
				},
			),
			{ numRuns: 3_000 },
		);
	});

	it.each([
		[
			"an array of 2^32-1 entries",
			[0x81, 0xa4, 0x74, 0x79, 0x70, 0x65, 0xdd, 0xff, 0xff, 0xff, 0xff],
		],
		["a map of 2^32-1 entries", [0xdf, 0xff, 0xff, 0xff, 0xff, 0xa0]],
		["4 GiB of binary", [0x81, 0xa0, 0xc6, 0xff, 0xff, 0xff, 0xff]],
		["4 GiB of text", [0x81, 0xa0, 0xdb, 0xff, 0xff, 0xff, 0xff]],
	])("allocates nothing for a short message that claims %s", (_what, bytes) => {
		const before = process.memoryUsage();
		for (let i = 0; i < 1_000; i++) refusal(Uint8Array.from(bytes));
		const after = process.memoryUsage();
		expect(after.rss - before.rss).toBeLessThan(64 * 1024 * 1024);
	});

	it("bounds nesting, whatever the length", () => {
		const nested = (depth: number) =>
			Uint8Array.from([...new Array<number>(depth - 1).fill(0x91), 0x90]);
		expect(structureFault(nested(MAX_NESTING))).toBeUndefined();
		expect(structureFault(nested(MAX_NESTING + 1))).toBe("too_deep");
		expect(
			structureFault(new Uint8Array(MAX_CONTROL_MESSAGE_BYTES).fill(0x91)),
		).toBe("too_deep");
		expect(structureFault(Uint8Array.of(0x91, 0x80))).toBeUndefined();
	});

	it("refuses more than 1 MiB", () => {
		const bytes = pack({
			type: "x",
			pad: new Uint8Array(MAX_CONTROL_MESSAGE_BYTES),
		});
		expect(refusal(bytes).field).toBe("length");
	});

	it.each<[string, Uint8Array]>([
		["no bytes", Uint8Array.of()],
		["no map", pack([1])],
		["binary alone", pack(Uint8Array.of(1))],
		["nil", pack(null)],
		["two values", Uint8Array.of(0x80, 0x80)],
		["an extension type", Uint8Array.of(0x81, 0xa0, 0xd4, 0x65, 0x00)],
		["a timestamp", pack({ type: new Date(0) })],
		["the reserved byte", Uint8Array.of(0x81, 0xa0, 0xc1)],
		["a key that is no text", Uint8Array.of(0x81, 0x01, 0x01)],
		["invalid UTF-8", Uint8Array.of(0x81, 0xa1, 0xff, 0x01)],
		[
			"a __proto__ key",
			pack(JSON.parse('{"type":"start_write","__proto__":{}}')),
		],
		["no type", pack({ op_handle: 1 })],
		["a type that is no text", pack({ type: 5 })],
	])("refuses %s", (_what, bytes) => {
		refusal(bytes);
	});

	it.each<[string, number[], string]>([
		["no bytes", [], "truncated"],
		["a map without its value", [0x81, 0xa0], "truncated"],
		["two values", [0x80, 0x80], "trailing_bytes"],
		["an extension type", [0x81, 0xa0, 0xd4, 0x65, 0x00], "extension_type"],
		["the reserved byte", [0xc1], "reserved_byte"],
		["a number as key", [0x81, 0x01, 0x01], "map_key_type"],
		["binary as key", [0x81, 0xc4, 0x00, 0x01], "map_key_type"],
		[
			"a number as second key, after a nested map",
			[0x82, 0xa0, 0x81, 0xa0, 0x01, 0x02, 0x01],
			"map_key_type",
		],
		["half a character", [0xa1, 0xc3], "invalid_utf8"],
		["a surrogate", [0xa3, 0xed, 0xa0, 0x80], "invalid_utf8"],
	])("names what is wrong with %s", (_what, bytes, fault) => {
		expect(structureFault(Uint8Array.from(bytes))).toBe(fault);
	});

	it("knows no types by the names of object members", () => {
		for (const type of ["constructor", "toString", "hasOwnProperty", ""])
			expect(decodeControlMessage(pack({ type }))).toBeUndefined();
	});

	it("agrees with the decoder on what is well-formed", () => {
		const decoder = new Decoder({ useBigInt64: true });
		fc.assert(
			fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
				if (structureFault(bytes) !== undefined) return;
				try {
					decoder.decode(bytes);
				} catch (error) {
					expect(String(error)).toContain("__proto__");
				}
			}),
			{ numRuns: 3_000 },
		);
	});
});

describe("validation", () => {
	it("ignores unknown fields and drops unknown types", () => {
		expect(
			decodeControlMessage(pack({ ...startWrite, future: { x: [1] } }))?.type,
		).toBe("start_write");
		expect(
			decodeControlMessage(pack({ type: "future", x: 1 })),
		).toBeUndefined();
	});

	it("takes integers in whatever width they were sent", () => {
		const message = decodeControlMessage(
			pack({
				...startWrite,
				op_handle: 5n,
				remaining_timeout_ms: 7n,
				dst_descriptors: [[{ ...element, element_index: 3n }]],
			}),
		);
		expect(message).toMatchObject({
			opHandle: 5n,
			remainingTimeoutMs: 7,
			dstDescriptors: [[{ elementIndex: 3 }]],
		});
	});

	it("fills in what a sender may leave out", () => {
		const {
			allow_layout_subset: _a,
			source_incarnation: _s,
			...rest
		} = startWrite;
		expect(
			decodeControlMessage(
				pack({
					...rest,
					dst_descriptors: [[{ end_point_name: "target", element_index: 1 }]],
				}),
			),
		).toMatchObject({
			allowLayoutSubset: false,
			allowFramework: true,
			mode: "copy",
			dstDescriptors: [[{ label: "", framework: true }]],
		});
	});

	it.each<[string, object, string]>([
		["no agent", { target_agent: "" }, "target_agent"],
		[
			"an incarnation of another form",
			{ sender_incarnation: "ABC" },
			"sender_incarnation",
		],
		[
			"an endpoint that is no text",
			{ sender_control_endpoint: 5 },
			"sender_control_endpoint",
		],
		[
			"an endless endpoint",
			{ sender_control_endpoint: "x".repeat(MAX_STRING_BYTES + 1) },
			"sender_control_endpoint",
		],
		["a timeout of 0", { remaining_timeout_ms: 0 }, "remaining_timeout_ms"],
		[
			"a negative timeout",
			{ remaining_timeout_ms: -1 },
			"remaining_timeout_ms",
		],
		[
			"an infinite timeout",
			{ remaining_timeout_ms: Number.POSITIVE_INFINITY },
			"remaining_timeout_ms",
		],
		[
			"a timeout of NaN",
			{ remaining_timeout_ms: Number.NaN },
			"remaining_timeout_ms",
		],
		[
			"a timeout that is a boolean",
			{ remaining_timeout_ms: true },
			"remaining_timeout_ms",
		],
		["no keys", { keys: [], dst_descriptors: [] }, "keys"],
		["an empty key", { keys: [new Uint8Array()] }, "keys[0]"],
		[
			"an endless key",
			{ keys: [new Uint8Array(MAX_BLOCK_KEY_BYTES + 1)] },
			"keys[0]",
		],
		["a key of text", { keys: ["k"] }, "keys[0]"],
		[
			"the same key twice",
			{ keys: [key, key], dst_descriptors: [[element], [element]] },
			"keys[1]",
		],
		[
			"too many keys",
			{ keys: new Array(MAX_KEYS_PER_WRITE + 1).fill(0) },
			"keys",
		],
		[
			"fewer destinations than keys",
			{ dst_descriptors: [] },
			"dst_descriptors",
		],
		[
			"a key without destination",
			{ dst_descriptors: [[]] },
			"dst_descriptors[0]",
		],
		[
			"an element of another agent",
			{ dst_descriptors: [[{ ...element, end_point_name: "other" }]] },
			"dst_descriptors[0][0].end_point_name",
		],
		[
			"a negative element index",
			{ dst_descriptors: [[{ ...element, element_index: -1 }]] },
			"dst_descriptors[0][0].element_index",
		],
		[
			"a fractional element index",
			{ dst_descriptors: [[{ ...element, element_index: 0.5 }]] },
			"dst_descriptors[0][0].element_index",
		],
		[
			"an element index beyond 2^31",
			{ dst_descriptors: [[{ ...element, element_index: 2 ** 31 }]] },
			"dst_descriptors[0][0].element_index",
		],
		[
			"a label that is no text",
			{ dst_descriptors: [[{ ...element, label: 1 }]] },
			"dst_descriptors[0][0].label",
		],
		[
			"a framework flag of 1",
			{ dst_descriptors: [[{ ...element, framework: 1 }]] },
			"dst_descriptors[0][0].framework",
		],
		[
			"an element that is no map",
			{ dst_descriptors: [[1]] },
			"dst_descriptors[0][0]",
		],
		[
			"a subset flag that is no boolean",
			{ allow_layout_subset: 1 },
			"allow_layout_subset",
		],
		[
			"a framework policy that is no boolean",
			{ allow_framework: "no" },
			"allow_framework",
		],
		["an unknown mode", { mode: "link" }, "mode"],
		[
			"an expected incarnation of another form",
			{ source_incarnation: "" },
			"source_incarnation",
		],
		[
			"metadata of text",
			{ ...metadata, target_agent_metadata: "m" },
			"target_agent_metadata",
		],
		[
			"empty metadata",
			{ ...metadata, target_agent_metadata: new Uint8Array() },
			"target_agent_metadata",
		],
		[
			"too much metadata",
			{
				...metadata,
				target_agent_metadata: new Uint8Array(MAX_METADATA_BYTES + 1),
			},
			"target_agent_metadata",
		],
		[
			"one map of regions",
			{ ...metadata, target_regions: [{}] },
			"target_regions",
		],
		[
			"a list of regions",
			{ ...metadata, target_regions: [[], []] },
			"target_regions[0]",
		],
		[
			"a region under another label",
			{ ...metadata, target_regions: [{}, { x: region }] },
			'target_regions[1]["x"].label',
		],
		[
			"a region without elements",
			{ ...metadata, target_regions: [{}, { kv: { ...region, count: 0 } }] },
			'target_regions[1]["kv"].count',
		],
		[
			"a region with overlapping elements",
			{ ...metadata, target_regions: [{}, { kv: { ...region, stride: 8 } }] },
			'target_regions[1]["kv"].stride',
		],
		[
			"a region beyond the address space",
			{
				...metadata,
				target_regions: [{}, { kv: { ...region, addr: 2n ** 64n - 1n } }],
			},
			'target_regions[1]["kv"].addr',
		],
		[
			"a region with half a label",
			{
				...metadata,
				target_regions: [{ "kv:": { ...region, label: "kv:" } }, {}],
			},
			'target_regions[0]["kv:"].label',
		],
	])(
		"refuses a start_write with %s, and says whom to answer",
		(_what, fields, field) => {
			const error = refusal(pack({ ...startWrite, ...fields }));
			expect(error).toBeInstanceOf(MalformedStartWriteError);
			expect(error.field).toBe(field);
			expect(error.message).toContain(`start_write: ${field}`);
			const { opHandle, targetAgent, sourceControlEndpoint } =
				error as MalformedStartWriteError;
			expect(opHandle).toBe(-5n);
			if (!("target_agent" in fields)) expect(targetAgent).toBe("target");
			expect(sourceControlEndpoint).toBe("tcp://s:1");
		},
	);

	it("refuses a start_write without a readable handle as nobody's", () => {
		for (const op_handle of [undefined, null, "1", 1.5, true, 2n ** 63n]) {
			const error = refusal(pack({ ...startWrite, op_handle }));
			expect(error).not.toBeInstanceOf(MalformedStartWriteError);
			expect(error.field).toBe("op_handle");
		}
	});

	it.each<[string, unknown, string]>([
		["no list", 5, "results"],
		["an empty result", [[]], "results[0]"],
		["an unknown status", [["maybe"]], "results[0]"],
		["a status of an object member", [["constructor"]], "results[0]"],
		["resolved without key", [["resolved"]], "results[0]"],
		[
			"an empty key",
			[["resolved", new Uint8Array(), ["kv"], [16]]],
			"results[0][1]",
		],
		["a key of text", [["resolved", "k", ["kv"], [16]]], "results[0][1]"],
		["no labels", [["resolved", key, [], []]], "results[0][2]"],
		[
			"a label that is no text",
			[["resolved", key, [1], [16]]],
			"results[0][2][0]",
		],
		[
			"fewer sizes than labels",
			[["resolved", key, ["a", "b"], [16]]],
			"results[0][3]",
		],
		["a size of 0", [["resolved", key, ["kv"], [0]]], "results[0][3][0]"],
		[
			"a negative size",
			[["not_found"], ["resolved", key, ["kv"], [-1]]],
			"results[1][3][0]",
		],
		[
			"too many results",
			new Array(MAX_HASHES_PER_MESSAGE + 1).fill(["not_found"]),
			"results",
		],
	])(
		"refuses a hashes_resolved with %s, and says which resolution failed",
		(_what, results, field) => {
			const error = refusal(pack({ ...hashesResolved, results }));
			expect(error).toBeInstanceOf(MalformedHashesResolvedError);
			expect(error.field).toBe(field);
			const { resolutionId, senderControlEndpoint } =
				error as MalformedHashesResolvedError;
			expect(resolutionId).toBe(9n);
			expect(senderControlEndpoint).toBe("tcp://t:1");
		},
	);

	it("refuses replies that do not echo the endpoint asked", () => {
		for (const message of [
			{ type: "target_metadata_ack" },
			{ type: "write_refused", op_handle: 1 },
			{ type: "write_probe_ack", op_handle: 1, terminal: true },
			hashesResolved,
		]) {
			const error = refusal(
				pack({ ...header, ...message, sender_control_endpoint: null }),
			);
			expect(error.field).toBe("sender_control_endpoint");
			expect(error).not.toBeInstanceOf(MalformedHashesResolvedError);
		}
	});

	it.each<[string, object, string]>([
		["no hashes", { hashes: [] }, "hashes"],
		[
			"too many hashes",
			{ hashes: new Array(MAX_HASHES_PER_MESSAGE + 1).fill(1) },
			"hashes",
		],
		["a negative hash", { hashes: [1, -1] }, "hashes[1]"],
		["a hash that is a boolean", { hashes: [true] }, "hashes[0]"],
		["an inexact hash", { hashes: [2 ** 60] }, "hashes[0]"],
		["a negative ID", { resolution_id: -1 }, "resolution_id"],
		["no time left", { remaining_timeout_ms: 0 }, "remaining_timeout_ms"],
	])("refuses a resolve_hashes with %s", (_what, fields, field) => {
		const message = {
			type: "resolve_hashes",
			resolution_id: 1,
			hashes: [1],
			remaining_timeout_ms: 5,
			...header,
		};
		expect(refusal(pack({ ...message, ...fields })).field).toBe(field);
	});

	it("refuses a probe answer whose terminal flag is no boolean", () => {
		expect(
			refusal(
				pack({ type: "write_probe_ack", op_handle: 1, terminal: 1, ...header }),
			).field,
		).toBe("terminal");
	});
});

describe("a notification", () => {
	const prefixed = (value: unknown) =>
		Buffer.concat([Buffer.from("KVCR:"), pack(value)]);
	const done = {
		type: "write_done",
		op_handle: 7,
		success: true,
		completed_indices: [0, 2],
	};

	it("of another prefix, type or handle is nobody's", () => {
		expect(decodeNotification(pack(done))).toBeUndefined();
		expect(decodeNotification(Buffer.from("KVCR"))).toBeUndefined();
		expect(decodeNotification(Buffer.from("KVCR:"))).toBeUndefined();
		expect(
			decodeNotification(prefixed({ ...done, type: "other" })),
		).toBeUndefined();
		expect(
			decodeNotification(prefixed({ ...done, op_handle: "7" })),
		).toBeUndefined();
		expect(decodeNotification(prefixed([1]))).toBeUndefined();
	});

	it("is a success only with an explicit success and usable indices", () => {
		expect(decodeNotification(prefixed(done))).toEqual({
			opHandle: 7n,
			success: true,
			completedIndices: [0, 2],
			terminal: true,
		});
		for (const fields of [
			{ success: 1 },
			{ success: "true" },
			{ success: undefined },
			{ completed_indices: undefined },
			{ completed_indices: [0, 0] },
			{ completed_indices: [-1] },
			{ completed_indices: [0.5] },
			{ completed_indices: { 0: 0 } },
		])
			expect(decodeNotification(prefixed({ ...done, ...fields }))).toEqual({
				opHandle: 7n,
				success: false,
				completedIndices: [],
				terminal: true,
			});
	});

	it("is terminal unless it says otherwise, and never by mistake", () => {
		const failed = { type: "write_done", op_handle: 7, success: false };
		expect(decodeNotification(prefixed(failed))?.terminal).toBe(true);
		for (const terminal of [false, 0, null, "true"])
			expect(
				decodeNotification(prefixed({ ...failed, terminal }))?.terminal,
			).toBe(false);
		expect(
			decodeNotification(
				encodeWriteDone({
					opHandle: 7n as OpHandle,
					success: false,
					terminal: false,
				}),
			)?.terminal,
		).toBe(false);
	});
});
