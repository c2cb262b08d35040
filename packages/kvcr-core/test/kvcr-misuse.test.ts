import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Kvcr, KvcrDriver, KvcrError, type KvcrOptions } from "../src/index.js";
import {
	Cluster,
	content,
	hint,
	key,
	type Peer,
	SLOT,
	SMALL,
} from "./support/cluster.js";

let cluster: Cluster;
let peer: Peer;

beforeEach(async () => {
	cluster = new Cluster();
	peer = await cluster.peer("peer", {
		frameworkElements: 4,
		pools: [
			{ name: "kv", slotBytes: SLOT, slotCount: 4 },
			{ name: "indexer", slotBytes: SMALL, slotCount: 4 },
			{ name: "none", slotBytes: SMALL, slotCount: 0 },
		],
	});
});
afterEach(() => cluster.close());

const A = key(1n);
const bytes = content(A);
const wrong = (value: unknown): never => value as never;

/** Everything a call could have changed. */
function state(): string {
	return JSON.stringify(peer.kvcr.stats());
}

const cases: readonly (readonly [
	name: string,
	argument: string,
	call: () => unknown,
])[] = [
	[
		"deposit: an unknown pool",
		"blocks[0].pieces[0].label",
		() => peer.kvcr.deposit([{ key: A, pieces: [{ label: "disk", bytes }] }]),
	],
	[
		"deposit: a piece of the wrong size",
		"blocks[1].pieces[0].bytes",
		() =>
			peer.kvcr.deposit([
				{ key: A, pieces: [{ label: "kv", bytes }] },
				{ key: key(2n), pieces: [{ label: "indexer", bytes }] },
			]),
	],
	[
		"deposit: a key that is not bytes",
		"blocks[0].key",
		() =>
			peer.kvcr.deposit([
				{ key: wrong("abc"), pieces: [{ label: "kv", bytes }] },
			]),
	],
	[
		"deposit: an empty key",
		"blocks[0].key",
		() =>
			peer.kvcr.deposit([
				{ key: new Uint8Array(0), pieces: [{ label: "kv", bytes }] },
			]),
	],
	[
		"deposit: no pieces",
		"blocks[0].pieces",
		() => peer.kvcr.deposit([{ key: A, pieces: [] }]),
	],
	[
		"deposit: a piece that is nothing",
		"blocks[0].pieces[0]",
		() => peer.kvcr.deposit([{ key: A, pieces: [wrong(null)] }]),
	],
	[
		"deposit: a list of pieces with a hole",
		"blocks[0].pieces[0]",
		() => {
			const pieces: { label: string; bytes: Uint8Array }[] = [];
			pieces[1] = { label: "kv", bytes };
			return peer.kvcr.deposit([{ key: A, pieces }]);
		},
	],
	[
		"deposit: noEvict that is no boolean",
		"noEvict",
		() =>
			peer.kvcr.deposit([{ key: A, pieces: [{ label: "kv", bytes }] }], {
				noEvict: wrong("yes"),
			}),
	],
	["deposit: no list", "blocks", () => peer.kvcr.deposit(wrong(undefined))],
	[
		"fetch: a key that is not bytes",
		"keys[1]",
		() => peer.kvcr.fetch([A, wrong(7)]),
	],
	[
		"fetch: one key in place of a list",
		"keys",
		() => peer.kvcr.fetch(wrong(A)),
	],
	[
		"fetch: a layout with an unknown pool",
		"expectedLayout[1]",
		() => peer.kvcr.fetch([A], { expectedLayout: ["kv", "disk"] }),
	],
	[
		"fetch: a layout that is no list",
		"expectedLayout",
		() => peer.kvcr.fetch([A], { expectedLayout: wrong("kv") }),
	],
	[
		"fetch: an empty request ID",
		"requestId",
		() => peer.kvcr.fetch([A], { requestId: "" }),
	],
	[
		"query: a key that is not bytes",
		"keys[0]",
		() => peer.kvcr.query([wrong({})]),
	],
	["query: no list", "keys", () => peer.kvcr.query(wrong(undefined))],
	[
		"query: one key in place of a list",
		"keys",
		() => peer.kvcr.query(wrong(A)),
	],
	[
		"deliver: overlapping destinations",
		"destinations[1].pieces[0]",
		() => {
			const region = peer.framework as never;
			return peer.kvcr.deliver([
				{ key: A, pieces: [{ label: "kv", region, element: 1 }] },
				{ key: key(2n), pieces: [{ label: "kv", region, element: 1 }] },
			]);
		},
	],
	[
		"deliver: memory that was not registered here",
		"destinations[0].pieces[0].region",
		() =>
			peer.kvcr.deliver([
				{
					key: A,
					pieces: [{ label: "kv", region: foreign as never, element: 0 }],
				},
			]),
	],
	[
		"deliver: an element outside the region",
		"destinations[0].pieces[0]",
		() =>
			peer.kvcr.deliver([
				{
					key: A,
					pieces: [
						{ label: "kv", region: peer.framework as never, element: 4 },
					],
				},
			]),
	],
	[
		"deliver: no pieces",
		"destinations[0].pieces",
		() => peer.kvcr.deliver([{ key: A, pieces: wrong(undefined) }]),
	],
	[
		"release: a handle that is no bigint",
		"handles[0]",
		() => peer.kvcr.release([wrong(1)]),
	],
	["release: no list", "handles", () => peer.kvcr.release(wrong(undefined))],
	[
		"abort: a handle that is no bigint",
		"handle",
		() => peer.kvcr.abort(wrong("h")),
	],
	[
		"submitHint: an empty request ID",
		"requestId",
		() => peer.kvcr.submitHint(hint("memory://x", [1n]), ""),
	],
	[
		"discardHint: no request ID",
		"requestId",
		() => peer.kvcr.discardHint(wrong(undefined)),
	],
	["onWake: no function", "listener", () => peer.kvcr.onWake(wrong(undefined))],
	...([null, 7, "r"] as const).flatMap((options) =>
		(["query", "deposit", "fetch", "deliver"] as const).map(
			(name) =>
				[
					`${name}: options that are ${options}`,
					"options",
					() =>
						(peer.kvcr[name] as (list: unknown, options: unknown) => unknown)(
							[],
							options,
						),
				] as const,
		),
	),
	[
		"new KvcrDriver: no instance",
		"kvcr",
		() => new KvcrDriver(wrong(undefined)),
	],
	["new KvcrDriver: some object", "kvcr", () => new KvcrDriver(wrong({}))],
];

let foreign: unknown;

describe("misuse is answered by a typed error with the argument in it, and changes nothing", () => {
	it.each(cases)("%s", async (_name, argument, call) => {
		foreign = await peer.agent.createRegion({
			label: "kv",
			elementBytes: SLOT,
			elementCount: 1,
		});
		const before = state();
		let error: unknown;
		try {
			call();
		} catch (thrown) {
			error = thrown;
		}
		expect(error).toBeInstanceOf(KvcrError);
		expect((error as KvcrError).code).toMatch(
			/^ERR_KVCR_(INVALID_ARGUMENT|ELEMENT_OUT_OF_RANGE)$/,
		);
		expect((error as KvcrError).message).toContain(argument);
		expect(state()).toBe(before);
		cluster.settle();
		expect(peer.results).toEqual([]);
	});

	it("a value that cannot even be looked at is named all the same", () => {
		const hostile = new Proxy(
			{},
			{
				get: () => {
					throw new RangeError("do not touch");
				},
				getOwnPropertyDescriptor: () => {
					throw new RangeError("do not look");
				},
			},
		);
		expect(() => peer.kvcr.release([wrong(hostile)])).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_INVALID_ARGUMENT" }),
		);
		expect(() => peer.kvcr.submitHint(hostile)).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_INVALID_HINT" }),
		);
	});

	it("a list that closes the instance while it is read starts nothing", async () => {
		let closing: Promise<void> | undefined;
		function* blocks() {
			yield { key: A, pieces: [{ label: "kv", bytes }] };
			closing = peer.kvcr.close();
		}
		expect(() => peer.kvcr.deposit(blocks())).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_CLOSED" }),
		);
		await cluster.clock.advanceAsync(5_000);
		await closing;
		expect(peer.kvcr.stats().operations.open).toBe(0);
	});

	it("a released region is refused", async () => {
		const region = peer.framework;
		if (region === undefined) throw new Error("no framework memory");
		region.release();
		expect(() =>
			peer.kvcr.deliver([
				{ key: A, pieces: [{ label: "kv", region, element: 0 }] },
			]),
		).toThrow(expect.objectContaining({ code: "ERR_KVCR_REGION_RELEASED" }));
	});

	it("a block for a pool without slots is too large, and takes nothing from the rest of its batch", () => {
		const handle = peer.kvcr.deposit(
			[
				{ key: A, pieces: [{ label: "kv", bytes }] },
				{
					key: key(2n),
					pieces: [{ label: "none", bytes: content(key(2n), SMALL) }],
				},
			],
			{ noEvict: true },
		);
		cluster.settle();
		const entries = peer.results.find((one) => one.handle === handle)?.entries;
		expect(entries).toMatchObject([
			{ status: "SUCCESS" },
			{ status: "FAILED", reason: "too_large" },
		]);
		peer.kvcr.release(entries?.flatMap((one) => one.releaseHandle ?? []) ?? []);
		expect(peer.kvcr.stats().cache).toMatchObject({ claims: 0, filling: 0 });
	});
});

describe("settings that cannot work are refused before anything is started", () => {
	it.each([
		["agent", {}],
		["pools", { pools: [] }],
		["pools[0].name", { pools: [{ name: "a:b", slotBytes: 1, slotCount: 1 }] }],
		[
			"pools[0].name",
			{ pools: [{ name: "__proto__", slotBytes: 1, slotCount: 1 }] },
		],
		[
			"pools[1].name",
			{
				pools: [
					{ name: "a", slotBytes: 1, slotCount: 1 },
					{ name: "a", slotBytes: 1, slotCount: 1 },
				],
			},
		],
		[
			"pools[0].slotBytes",
			{ pools: [{ name: "a", slotBytes: 0, slotCount: 1 }] },
		],
		[
			"pools[0].slotCount",
			{ pools: [{ name: "a", slotBytes: 1, slotCount: -1 }] },
		],
		["operationTimeoutMs", { operationTimeoutMs: Number.NaN }],
		["abandonTimeoutMs", { operationTimeoutMs: 10, abandonTimeoutMs: 5 }],
		["limits.maxPeers", { limits: { maxPeers: 0 } }],
		["limits.maxWritesPerPeer", { limits: { maxWritesPerPeer: 1.5 } }],
		["limits", { limits: 7 }],
		["closeTimeoutMs", { closeTimeoutMs: 2 ** 31 }],
		["inventoryReportIntervalMs", { inventoryReportIntervalMs: -1 }],
		["capacityLowWatermarkPercent", { capacityLowWatermarkPercent: 101 }],
		["eagerConnect", { eagerConnect: "no" }],
		["exclusiveEndpoint", { exclusiveEndpoint: 1 }],
		["inventorySink", { inventorySink: {} }],
		["capacityListener", { capacityListener: 0 }],
		["onTransferReport", { onTransferReport: "log" }],
		["policy", { policy: { decideIngest: () => "keep" } }],
		["stats", { stats: {} }],
		["logger", { logger: { warn: () => {} } }],
		["clock", { clock: { now: () => 0 } }],
		["channel", { channel: null }],
		["adapter", { adapter: {} }],
		["pins", { pins: {} }],
		["frameworkRegions", { frameworkRegions: {} }],
		["frameworkRegions[0]", { frameworkRegions: [null] }],
		[
			"frameworkRegions[0].label",
			{
				frameworkRegions: [
					{
						label: "__proto__",
						element: () => new Uint8Array(8),
						release: () => {},
					},
				],
			},
		],
		[
			"frameworkRegions[1].label",
			{
				frameworkRegions: [0, 1].map(() => ({
					label: "kv",
					element: () => new Uint8Array(8),
					release: () => {},
				})),
			},
		],
	])("%s", async (argument, settings) => {
		const agent = cluster.fabric.agent("fresh");
		const options = {
			agent: argument === "agent" ? {} : agent,
			pools: [{ name: "kv", slotBytes: 8, slotCount: 1 }],
			...settings,
		} as unknown as KvcrOptions;
		await expect(Kvcr.create(options)).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ARGUMENT",
			argument,
		});
		expect(agent.regionCount).toBe(0);
		await agent.close();
	});
});
