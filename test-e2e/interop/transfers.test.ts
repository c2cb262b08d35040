/** A TypeScript and a Python peer move blocks in both directions; every byte is compared. */
import { beforeAll, expect, it } from "vitest";
import { key } from "../harness/blocks.js";
import type { BlockSpec, EntryReport } from "../harness/commands.js";
import { expectRightBytes } from "../harness/expect.js";
import { hint } from "../harness/hint.js";
import { overDirections, type Peer } from "./pairs.js";
import { expectSettled } from "./settled.js";

const POOLS = [
	{ name: "kv", slotBytes: 65_536, slotCount: 64 },
	{ name: "indexer", slotBytes: 4_096, slotCount: 64 },
];
/** Long enough for the first connection on a busy machine; nothing here waits for it. */
const PATIENT = { operationTimeoutMs: 5_000, abandonTimeoutMs: 12_000 };
const THREE = ["kv", "kv", "indexer"];

const keysOf = (hashes: readonly bigint[]) => hashes.map((hash) => key(hash));

async function advise(
	target: Peer,
	source: Peer,
	hashes: readonly bigint[],
	requestId = "request",
): Promise<void> {
	await target.call(
		"submitHint",
		hint({ source: source.endpoint, hashes }),
		requestId,
	);
}

async function finish(
	target: Peer,
	source: Peer,
	entries: readonly EntryReport[],
	requestId = "request",
): Promise<void> {
	const handles = entries.flatMap(({ releaseHandle }) => releaseHandle ?? []);
	expect(await target.call("release", handles)).toEqual(
		handles.map(() => true),
	);
	await target.call("discardHint", requestId);
	await expectSettled(target);
	await expectSettled(source);
}

overDirections("transfers", (pairs, sourceKind, targetKind) => {
	let source: Peer;
	let target: Peer;
	beforeAll(async () => {
		const sourceOptions = {
			...PATIENT,
			pools: POOLS,
			frameworkElements: 32,
			frameworkBlocks: [
				{ key: key(411n), layout: THREE },
				{ key: key(412n), layout: THREE },
			],
		};
		[source, target] = await pairs.both(sourceKind, sourceOptions, targetKind, {
			...PATIENT,
			pools: POOLS,
		});
	});

	it("fetch moves blocks of one pool, small and large batches, and they stay where they arrived", async () => {
		const hashes = Array.from({ length: 17 }, (_, i) => BigInt(i + 101));
		for (let at = 0; at < hashes.length; at += 16)
			await source.call(
				"deposit",
				keysOf(hashes.slice(at, at + 16)).map((one) => ({ key: one })),
			);
		await advise(target, source, hashes);
		expect(await target.call("query", [key(101n)], "request")).toEqual([
			{ status: "FETCHABLE", tier: "REMOTE_G2" },
		]);
		const first = await target.call("fetch", [key(101n)], {
			requestId: "request",
			expectedLayout: ["kv"],
		});
		expectRightBytes(first);
		const rest = await target.call("fetch", keysOf(hashes), {
			requestId: "request",
			expectedLayout: ["kv"],
		});
		expectRightBytes(rest);
		expect(await target.call("query", keysOf(hashes))).toEqual(
			hashes.map(() => ({ status: "HIT", tier: "DRAM" })),
		);
		await finish(target, source, [...first, ...rest]);
	});

	it("fetch moves blocks of several pools, layouts apart", async () => {
		const blocks: BlockSpec[] = [
			{ key: key(201n), layout: THREE },
			{ key: key(202n), layout: THREE },
			{ key: key(203n), layout: ["indexer"] },
		];
		await source.call("deposit", blocks);
		await advise(target, source, [201n, 202n, 203n]);
		const three = await target.call("fetch", [key(201n), key(202n)], {
			requestId: "request",
			expectedLayout: THREE,
		});
		const one = await target.call("fetch", [key(203n)], {
			requestId: "request",
			expectedLayout: ["indexer"],
		});
		expectRightBytes([...three, ...one]);
		await finish(target, source, [...three, ...one]);
	});

	it("deliver writes into framework memory, whole blocks and any part of their pieces", async () => {
		await source.call("deposit", [
			{ key: key(301n), layout: ["kv", "indexer"] },
			{ key: key(302n), layout: ["kv", "indexer"] },
			{ key: key(303n), layout: THREE },
		]);
		await advise(target, source, [301n, 302n, 303n]);
		const delivered = await target.call(
			"deliver",
			[
				{ key: key(301n), layout: ["kv", "indexer"] },
				{ key: key(302n), layout: ["indexer", "kv"], pieces: [1, 0] },
				{ key: key(303n), layout: ["indexer"], pieces: [2] },
			],
			"request",
		);
		expectRightBytes(delivered);
		// Nothing of it became resident.
		expect(await target.call("query", [key(301n)])).toMatchObject([
			{ status: "MISS" },
		]);
		await finish(target, source, []);
	});

	it("framework memory of the source is pinned, read and let go, alone and beside managed memory", async () => {
		await source.call("deposit", [{ key: key(413n), layout: THREE }]);
		await advise(target, source, [411n, 412n, 413n]);
		const alone = await target.call("fetch", [key(411n)], {
			requestId: "request",
			expectedLayout: THREE,
		});
		expectRightBytes(alone);
		const mixed = await target.call(
			"deliver",
			[
				{ key: key(412n), layout: THREE },
				{ key: key(413n), layout: THREE },
			],
			"request",
		);
		expectRightBytes(mixed);
		await finish(target, source, alone);
	});

	it("of a batch, what the source lacks fails, the rest arrives, and the gap is not asked for again", async () => {
		await source.call("deposit", [{ key: key(501n) }, { key: key(503n) }]);
		await advise(target, source, [501n, 502n, 503n]);
		const entries = await target.call("fetch", keysOf([501n, 502n, 503n]), {
			requestId: "request",
			expectedLayout: ["kv"],
		});
		expect(entries.map(({ status }) => status)).toEqual([
			"SUCCESS",
			"FAILED",
			"SUCCESS",
		]);
		expectRightBytes(entries.filter(({ status }) => status === "SUCCESS"));
		expect(await target.call("query", [key(502n)], "request")).toMatchObject([
			{ status: "MISS" },
		]);
		await finish(target, source, entries);
	});

	it("a source that has nothing of what is asked for fails all of it at once, not by a deadline", async () => {
		await advise(target, source, [601n, 602n]);
		const startedAt = performance.now();
		const entries = await target.call("fetch", keysOf([601n, 602n]), {
			requestId: "request",
			expectedLayout: ["kv"],
		});
		expect(performance.now() - startedAt).toBeLessThan(
			PATIENT.operationTimeoutMs / 2,
		);
		expect(entries.map(({ status }) => status)).toEqual(["FAILED", "FAILED"]);
		await finish(target, source, []);
	});

	it("a fill of another layout than the source's is refused, a delivery of part of it is not", async () => {
		const block = { key: key(701n), layout: ["kv", "indexer"] };
		await source.call("deposit", [block]);
		await advise(target, source, [701n], "fill");
		const [filled] = await target.call("fetch", [key(701n)], {
			requestId: "fill",
			expectedLayout: ["kv"],
		});
		expect(filled).toMatchObject({ status: "FAILED" });
		await target.call("discardHint", "fill");
		await advise(target, source, [701n]);
		expectRightBytes(
			await target.call(
				"deliver",
				[{ key: key(701n), layout: ["kv"] }],
				"request",
			),
		);
		await finish(target, source, []);
	});

	it("two targets of different kinds read the same blocks of one source at the same time", async () => {
		const targets = [
			target,
			await pairs.peer(sourceKind, { ...PATIENT, pools: POOLS }),
		];
		const hashes = Array.from({ length: 12 }, (_, i) => BigInt(i + 801));
		await source.call(
			"deposit",
			keysOf(hashes).map((one) => ({ key: one })),
		);
		const all = await Promise.all(
			targets.map(async (target) => {
				await advise(target, source, hashes);
				return target.call("fetch", keysOf(hashes), {
					requestId: "request",
					expectedLayout: ["kv"],
				});
			}),
		);
		for (const [index, entries] of all.entries()) {
			expectRightBytes(entries);
			await finish(targets[index] as Peer, source, entries);
		}
	});
});
