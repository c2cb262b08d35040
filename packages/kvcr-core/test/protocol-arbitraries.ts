/** Generators of valid protocol values for the property tests. */
import fc from "fast-check";
import {
	type BlockKey,
	INT64_MAX,
	INT64_MIN,
	type Incarnation,
	keyText,
	type OpHandle,
	type RegionDescriptor,
	type RouterHash,
	UINT64_MAX,
} from "../src/ports/index.js";
import {
	type ControlMessage,
	type HashResult,
	type MessageHeader,
	type PeerMetadata,
	type TransferElement,
	UNRESOLVED,
} from "../src/protocol/index.js";

const name = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
const text = fc.string({ maxLength: 12, unit: "grapheme" });
const incarnation = fc
	.string({
		unit: fc.constantFrom(..."0123456789abcdef"),
		minLength: 32,
		maxLength: 32,
	})
	.map((value) => value as Incarnation);
const timeout = fc.double({ min: 1e-3, max: 1e9, noNaN: true });

/** 64-bit extremes and the borders of every encoded width, among ordinary values. */
const borders = [7n, 8n, 16n, 31n, 32n, 52n, 53n, 63n, 64n].flatMap((bits) => [
	2n ** bits - 1n,
	2n ** bits,
	2n ** bits + 1n,
]);
export const uint64 = fc.oneof(
	fc.bigInt({ min: 0n, max: UINT64_MAX }),
	fc.constantFrom(0n, 1n, ...borders.filter((value) => value <= UINT64_MAX)),
);
export const opHandle = fc
	.oneof(
		fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
		fc.constantFrom(
			0n,
			...borders
				.flatMap((value) => [value, -value])
				.filter((value) => value >= INT64_MIN && value <= INT64_MAX),
		),
	)
	.map((value) => value as OpHandle);
export const routerHashes = uint64.map((value) => value as RouterHash);

export const blockKey = fc
	.uint8Array({ minLength: 1, maxLength: 40 })
	.map((value) => value as BlockKey);

export const header: fc.Arbitrary<MessageHeader> = fc.record(
	{
		targetAgent: name,
		senderIncarnation: incarnation,
		senderControlEndpoint: name,
		sourceControlEndpoint: name,
	},
	{ requiredKeys: ["targetAgent", "senderIncarnation"] },
);
const replyHeader: fc.Arbitrary<MessageHeader> = fc.record(
	{
		targetAgent: name,
		senderIncarnation: incarnation,
		senderControlEndpoint: name,
		sourceControlEndpoint: name,
	},
	{
		requiredKeys: ["targetAgent", "senderIncarnation", "senderControlEndpoint"],
	},
);

const regionLabel = fc.oneof(
	fc.constantFrom("", "kv", "indexer", "kv:0", "kv:*", "0", "constructor"),
	text.filter((label) => !/^[^:]*:$/.test(label) && label !== "__proto__"),
);
const region: fc.Arbitrary<RegionDescriptor> = fc
	.record({
		memType: fc.constantFrom("DRAM", "VRAM"),
		deviceId: fc.nat(7),
		addr: fc.bigInt({ min: 0n, max: UINT64_MAX - 2n ** 58n }),
		gap: fc.option(fc.nat(4096)),
		count: fc.integer({ min: 1, max: 2 ** 20 }),
		size: fc.oneof(
			fc.integer({ min: 1, max: 2 ** 26 }),
			fc.constantFrom(2 ** 32 - 1, 2 ** 32, 2 ** 33 + 1),
		),
		label: regionLabel,
	})
	.map(({ gap, ...rest }) => ({
		...rest,
		stride: gap === null ? 0 : rest.size + gap,
	}));
const catalog = fc
	.uniqueArray(region, { selector: (entry) => entry.label, maxLength: 4 })
	.map((regions) => new Map(regions.map((entry) => [entry.label, entry])));
export const peer: fc.Arbitrary<PeerMetadata> = fc.record({
	metadata: fc.uint8Array({ minLength: 1, maxLength: 200 }),
	regions: fc.record({ framework: catalog, managed: catalog }),
});

const startWrite = fc
	.record(
		{
			type: fc.constant("start_write" as const),
			header,
			opHandle,
			remainingTimeoutMs: timeout,
			sourceIncarnation: incarnation,
			keys: fc.uniqueArray(blockKey, {
				selector: keyText,
				minLength: 1,
				maxLength: 5,
			}),
			allowLayoutSubset: fc.boolean(),
			allowFramework: fc.boolean(),
			mode: fc.constantFrom("copy" as const, "move" as const),
			peer,
		},
		{
			requiredKeys: [
				"type",
				"header",
				"opHandle",
				"remainingTimeoutMs",
				"keys",
				"allowLayoutSubset",
				"allowFramework",
				"mode",
			],
		},
	)
	.chain((message) => {
		const element: fc.Arbitrary<TransferElement> = fc.record({
			endPointName: fc.constant(message.header.targetAgent),
			elementIndex: fc.nat(2 ** 31 - 1),
			label: text,
			framework: fc.boolean(),
		});
		return fc
			.array(fc.array(element, { minLength: 1, maxLength: 3 }), {
				minLength: message.keys.length,
				maxLength: message.keys.length,
			})
			.map((dstDescriptors) => ({ ...message, dstDescriptors }));
	});

const result: fc.Arbitrary<HashResult> = fc.oneof(
	fc.constantFrom(...Object.values(UNRESOLVED)),
	fc
		.record({
			key: blockKey,
			pieces: fc.array(
				fc.tuple(text, fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })),
				{ minLength: 1, maxLength: 4 },
			),
		})
		.map(({ key, pieces }) => ({
			status: "resolved" as const,
			key,
			labels: pieces.map((piece) => piece[0]),
			sizes: pieces.map((piece) => piece[1]),
		})),
);

/** Any valid message. */
export const controlMessage: fc.Arbitrary<ControlMessage> = fc.oneof(
	fc.record(
		{ type: fc.constant("target_metadata" as const), header, peer },
		{ requiredKeys: ["type", "header"] },
	),
	fc.record(
		{
			type: fc.constant("target_metadata_ack" as const),
			header: replyHeader,
			opHandle,
		},
		{ requiredKeys: ["type", "header"] },
	),
	startWrite,
	fc.record({
		type: fc.constant("write_refused" as const),
		header: replyHeader,
		opHandle,
	}),
	fc.record(
		{
			type: fc.constant("write_probe" as const),
			header,
			opHandle,
			sourceIncarnation: incarnation,
			peer,
		},
		{ requiredKeys: ["type", "header", "opHandle"] },
	),
	fc.record(
		{
			type: fc.constant("write_probe_ack" as const),
			header: replyHeader,
			opHandle,
			terminal: fc.boolean(),
			deadIncarnation: incarnation,
		},
		{ requiredKeys: ["type", "header", "opHandle", "terminal"] },
	),
	fc.record(
		{
			type: fc.constant("resolve_hashes" as const),
			header,
			resolutionId: uint64,
			hashes: fc.array(routerHashes, { minLength: 1, maxLength: 20 }),
			remainingTimeoutMs: timeout,
			peer,
		},
		{
			requiredKeys: [
				"type",
				"header",
				"resolutionId",
				"hashes",
				"remainingTimeoutMs",
			],
		},
	),
	fc.record({
		type: fc.constant("hashes_resolved" as const),
		header: replyHeader,
		resolutionId: uint64,
		results: fc.array(result, { maxLength: 10 }),
	}),
);
