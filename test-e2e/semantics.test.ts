import { freePort } from "kvcr-core/testing";
import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import {
	byHash,
	expectDrained,
	expectRightBytes,
	release,
} from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overAllRigs, type Rig } from "./harness/rigs.js";
import type { TestWorker } from "./harness/worker-handle.js";

/** Long enough for a busy machine: these scenarios are about order, not about deadlines. */
const PATIENT = { operationTimeoutMs: 10_000, abandonTimeoutMs: 20_000 };

function poolOf(slotCount: number) {
	return [{ name: "kv", slotBytes: 65_536, slotCount }];
}

async function pair(
	rig: Rig<TestWorker>,
	source: Parameters<Rig<TestWorker>["worker"]>[1] = {},
	target: Parameters<Rig<TestWorker>["worker"]>[1] = {},
): Promise<[TestWorker, TestWorker]> {
	return Promise.all([
		rig.worker("source", { ...PATIENT, ...source }),
		rig.worker("target", { ...PATIENT, ...target }),
	]);
}

async function statuses(
	worker: TestWorker,
	...hashes: readonly bigint[]
): Promise<string[]> {
	const results = await worker.call(
		"query",
		hashes.map((hash) => key(hash)),
	);
	return results.map(({ status }) => status);
}

/** Inventory as "+1 -1": hashes that came and went, in order. */
async function inventory(worker: TestWorker): Promise<string> {
	const events = await worker.call("inventory");
	return events
		.flatMap(({ keys, removed }) =>
			keys.map((one) => `${removed ? "-" : "+"}${hashOf(one)}`),
		)
		.join(" ");
}

function hashOf(one: Uint8Array): bigint {
	return Buffer.from(one).readBigUInt64BE(one.byteLength - 8);
}

async function counter(worker: TestWorker, name: string): Promise<number> {
	return (await worker.call("stats")).counters[name] ?? 0;
}

const SERVED =
	'kvcr_transfers_total{side="source",scope="serve",result="success"}';

/** Loads blocks and compares every byte, then gives them back. */
async function load(worker: TestWorker, ...keys: readonly Uint8Array[]) {
	const entries = await worker.call("fetch", keys);
	expectRightBytes(entries);
	await release(worker, entries);
}

async function gone(worker: TestWorker, hash: bigint): Promise<void> {
	await expect
		.poll(() => statuses(worker, hash), { timeout: 10_000 })
		.toEqual(["MISS"]);
}

overAllRigs(
	"placement between two workers",
	[
		["portable", "zmq"],
		["nixl", "zmq"],
		["portable", "nats"],
		["portable", "memory"],
	],
	(rig) => {
		it("copy: bytes through later loads, the source keeps its copy, both inventories tell", async () => {
			const [source, target] = await pair(rig);
			await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n, 2n] }),
			);
			expect(byHash(await target.call("outcomes", 2))).toEqual(
				new Map([
					[1n, "placed"],
					[2n, "placed"],
				]),
			);
			await load(target, key(1n), key(2n));
			expectRightBytes(await target.call("deliver", [{ key: key(2n) }]));
			await load(source, key(1n), key(2n));
			expect(await inventory(source)).toBe("+1 +2");
			expect((await inventory(target)).split(" ").sort()).toEqual(["+1", "+2"]);
			await expectDrained(source);
			await expectDrained(target);
		});

		it("move: bytes through later loads, the source drops its copy and tells, and may place it again", async () => {
			const [source, target] = await pair(rig);
			await source.call("deposit", [{ key: key(1n) }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n], mode: "move" }),
			);
			expect(byHash(await target.call("outcomes", 1)).get(1n)).toBe("placed");
			await load(target, key(1n));
			await gone(source, 1n);
			expect(await inventory(source)).toBe("+1 -1");
			// And back.
			await source.call(
				"submitHint",
				hint({ source: target.endpoint, hashes: [1n], mode: "move" }),
			);
			expect(byHash(await source.call("outcomes", 1)).get(1n)).toBe("placed");
			await load(source, key(1n));
			await gone(target, 1n);
			expect(await inventory(target)).toBe("+1 -1");
			await expectDrained(source);
			await expectDrained(target);
		});

		it("move leaves blocks of readers and noEvict holders until they are released", async () => {
			const [source, target] = await pair(rig);
			const [pinned] = await source.call("deposit", [{ key: key(1n) }], {
				noEvict: true,
			});
			await source.call("deposit", [{ key: key(2n) }]);
			const reading = await source.call("fetch", [key(2n)]);
			expectRightBytes(reading);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n, 2n], mode: "move" }),
			);
			expect([...byHash(await target.call("outcomes", 2)).values()]).toEqual([
				"placed",
				"placed",
			]);
			await expect
				.poll(async () => (await source.call("stats")).cache?.retiring, {
					timeout: 10_000,
				})
				.toBe(2);
			expect(await statuses(source, 1n, 2n)).toEqual(["HIT", "HIT"]);
			await release(source, reading);
			await gone(source, 2n);
			expect(await statuses(source, 1n)).toEqual(["HIT"]);
			expect(
				await source.call("release", [pinned?.releaseHandle ?? 0n]),
			).toEqual([true]);
			await gone(source, 1n);
			expect((await inventory(source)).split(" ").slice(-2)).toEqual([
				"-2",
				"-1",
			]);
			await load(target, key(1n), key(2n));
			await expectDrained(source);
			await expectDrained(target);
		});

		it("a pending move is cancelled by a later deposit at the source", async () => {
			const [source, target] = await pair(rig);
			await source.call("deposit", [{ key: key(1n) }]);
			const reading = await source.call("fetch", [key(1n)]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n], mode: "move" }),
			);
			await target.call("outcomes", 1);
			await expect
				.poll(async () => (await source.call("stats")).cache?.retiring, {
					timeout: 10_000,
				})
				.toBe(1);
			await source.call("deposit", [{ key: key(1n) }]);
			await release(source, reading);
			expect(await statuses(source, 1n)).toEqual(["HIT"]);
			await load(source, key(1n));
			expect(await inventory(source)).toBe("+1");
			await expectDrained(source);
			await expectDrained(target);
		});

		it("a cached destination transfers nothing, and the source keeps its copy of a move", async () => {
			const [source, target] = await pair(rig);
			await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			await target.call("deposit", [{ key: key(1n) }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n], mode: "move" }),
			);
			expect(byHash(await target.call("outcomes", 1)).get(1n)).toBe(
				"already_resident",
			);
			expect(await counter(source, SERVED)).toBe(0);
			expect(await statuses(source, 1n)).toEqual(["HIT"]);
			// Partly cached: only the rest travels, only the rest is moved.
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n, 2n], mode: "move" }),
			);
			expect(
				(await target.call("outcomes", 3))
					.slice(1)
					.map((one) => [one.hash, one.outcome]),
			).toEqual(
				expect.arrayContaining([
					[1n, "already_resident"],
					[2n, "placed"],
				]),
			);
			await gone(source, 2n);
			expect(await statuses(source, 1n)).toEqual(["HIT"]);
			await load(target, key(1n), key(2n));
			await expectDrained(source);
			await expectDrained(target);
		});

		it("collisions at the destination: another block of the same hash stays itself, both load with their own bytes", async () => {
			const [source, target] = await pair(rig);
			await source.call("deposit", [{ key: key(7n, 1) }]);
			await target.call("deposit", [{ key: key(7n, 2) }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [7n] }),
			);
			expect(byHash(await target.call("outcomes", 1)).get(7n)).toBe("placed");
			await load(target, key(7n, 1), key(7n, 2));
			// From here on the hash is ambiguous at the target: as a source it refuses to guess.
			await source.call(
				"submitHint",
				hint({ source: target.endpoint, hashes: [7n] }),
			);
			expect(byHash(await source.call("outcomes", 1)).get(7n)).toBe(
				"ambiguous_hash",
			);
			// Moving one of them away makes the hash unique again: request-scoped transfers keep exact keys.
			await source.call(
				"submitHint",
				hint({ source: target.endpoint, hashes: [7n], mode: "move" }),
				"r",
			);
			const moved = await source.call("fetch", [key(7n, 2)], {
				requestId: "r",
			});
			expectRightBytes(moved);
			await release(source, moved);
			await source.call("discardHint", "r");
			await expect
				.poll(
					async () => (await target.call("query", [key(7n, 2)]))[0]?.status,
					{
						timeout: 10_000,
					},
				)
				.toBe("MISS");
			const third = await rig.worker("third", PATIENT);
			await third.call(
				"submitHint",
				hint({ source: target.endpoint, hashes: [7n] }),
			);
			expect(byHash(await third.call("outcomes", 1)).get(7n)).toBe("placed");
			await load(third, key(7n, 1));
			for (const worker of [source, target, third]) await expectDrained(worker);
		});

		it("mixed batches: every hash its own outcome, whatever became of the others", async () => {
			const [source, target] = await pair(rig, {
				frameworkBlocks: [{ key: key(5n), layout: ["kv"] }],
			});
			const other = await rig.worker("other", PATIENT);
			await source.call("deposit", [
				{ key: key(1n) },
				{ key: key(2n) },
				{ key: key(3n) },
				{ key: key(7n, 1) },
				{ key: key(7n, 2) },
			]);
			await other.call("deposit", [{ key: key(4n) }]);
			await target.call("deposit", [{ key: key(3n) }]);
			await target.call(
				"submitHint",
				hint(
					{ source: source.endpoint, hashes: [1n, 3n, 5n, 6n, 7n] },
					{ source: source.endpoint, hashes: [2n], mode: "move" },
					{
						source: other.endpoint,
						hashes: [4n, 8n],
						mode: "move",
						allowFramework: false,
					},
				),
			);
			expect(byHash(await target.call("outcomes", 8))).toEqual(
				new Map([
					[1n, "placed"],
					[2n, "placed"],
					[3n, "already_resident"],
					[4n, "placed"],
					[5n, "not_resident"],
					[6n, "not_found"],
					[7n, "ambiguous_hash"],
					[8n, "not_found"],
				]),
			);
			await load(target, key(1n), key(2n), key(3n), key(4n));
			await gone(source, 2n);
			await gone(other, 4n);
			expect(await statuses(source, 1n, 3n)).toEqual(["HIT", "HIT"]);
			for (const worker of [source, target, other]) await expectDrained(worker);
		});

		it("copy and move of the same blocks by two destinations at once: the move arrives, a copy arrives or says why not, the source gives all up", async () => {
			const [source, target] = await pair(rig);
			const other = await rig.worker("other", PATIENT);
			await source.call(
				"deposit",
				Array.from({ length: 16 }, (_, i) => ({ key: key(BigInt(i)) })),
			);
			const hashes = Array.from({ length: 16 }, (_, i) => BigInt(i));
			await Promise.all([
				target.call(
					"submitHint",
					hint({ source: source.endpoint, hashes, mode: "move" }),
				),
				other.call("submitHint", hint({ source: source.endpoint, hashes })),
			]);
			const moved = byHash(await target.call("outcomes", 16));
			expect(new Set(moved.values())).toEqual(new Set(["placed"]));
			// The copy comes before or after the move of each block, and says which.
			const copied = byHash(await other.call("outcomes", 16));
			for (const outcome of copied.values())
				expect([
					"placed",
					"not_resident",
					"not_found",
					"transfer_failed",
				]).toContain(outcome);
			await load(target, ...hashes.map((hash) => key(hash)));
			await load(
				other,
				...hashes
					.filter((hash) => copied.get(hash) === "placed")
					.map((hash) => key(hash)),
			);
			for (const hash of hashes) await gone(source, hash);
			for (const worker of [source, target, other]) await expectDrained(worker);
		});
	},
);

overAllRigs(
	"source memory that changes between resolution and admission",
	[
		["portable", "zmq"],
		["nixl", "zmq"],
		["portable", "nats"],
		["portable", "memory"],
	],
	(rig) => {
		/** A target whose only slots are claimed: what it resolves has to wait, and the source can change meanwhile. */
		async function waitingTarget(): Promise<{
			target: TestWorker;
			go(): Promise<void>;
		}> {
			const target = await rig.worker("target", {
				...PATIENT,
				pools: poolOf(2),
			});
			await target.call("deposit", [{ key: key(90n) }, { key: key(91n) }]);
			const held = await target.call("fetch", [key(90n), key(91n)]);
			return { target, go: () => release(target, held) };
		}

		async function untilWaiting(
			target: TestWorker,
			count: number,
		): Promise<void> {
			await expect
				.poll(async () => (await target.call("stats")).cache?.waiting, {
					timeout: 10_000,
				})
				.toBe(count);
		}

		for (const allowFramework of [undefined, true, false]) {
			const falls = allowFramework !== false;
			const policy = allowFramework === undefined ? {} : { allowFramework };
			it(`a block that vanished is ${falls ? "read from the framework" : "failed, the rest goes on"} (allow_framework: ${allowFramework ?? "default"})`, async () => {
				const source = await rig.worker("source", {
					...PATIENT,
					pools: poolOf(2),
					frameworkBlocks: [{ key: key(1n), layout: ["kv"] }],
				});
				const { target, go } = await waitingTarget();
				await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
				await target.call(
					"submitHint",
					hint({ source: source.endpoint, hashes: [1n, 2n], ...policy }),
				);
				await untilWaiting(target, 2);
				// The oldest of two slots goes for a new block; 2 is held so that it is not the one.
				const kept = await source.call("fetch", [key(2n)]);
				await source.call("deposit", [{ key: key(8n) }]);
				expect(await statuses(source, 1n, 2n)).toEqual(["MISS", "HIT"]);
				await go();
				expect(byHash(await target.call("outcomes", 2))).toEqual(
					new Map([
						[1n, falls ? "placed" : "transfer_failed"],
						[2n, "placed"],
					]),
				);
				await load(target, key(2n));
				if (falls) await load(target, key(1n));
				else expect(await statuses(target, 1n)).toEqual(["MISS"]);
				await release(source, kept);
				await expectDrained(source);
				await expectDrained(target);
			});
		}

		it("a hash that was bound to another block meanwhile brings in no wrong block", async () => {
			const source = await rig.worker("source", {
				...PATIENT,
				pools: poolOf(1),
			});
			const { target, go } = await waitingTarget();
			await source.call("deposit", [{ key: key(1n, 1) }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n] }),
			);
			await untilWaiting(target, 1);
			await source.call("deposit", [{ key: key(1n, 2) }]);
			await go();
			expect(byHash(await target.call("outcomes", 1)).get(1n)).toBe(
				"transfer_failed",
			);
			expect(
				(await target.call("query", [key(1n, 1), key(1n, 2)])).map(
					({ status }) => status,
				),
			).toEqual(["MISS", "MISS"]);
			// The next hint resolves what the hash means now.
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n] }),
			);
			expect((await target.call("outcomes", 2)).at(-1)?.outcome).toBe("placed");
			await load(target, key(1n, 2));
			await expectDrained(source);
			await expectDrained(target);
		});

		it("the policy of a hint holds for later fetches and deliveries of its request, allowed and denied", async () => {
			const source = await rig.worker("source", {
				...PATIENT,
				frameworkBlocks: [1n, 2n].map((hash) => ({
					key: key(hash),
					layout: ["kv"],
				})),
			});
			const target = await rig.worker("target", PATIENT);
			await source.call("deposit", [{ key: key(3n) }]);
			for (const [request, allowFramework] of [
				["denied", false],
				["allowed", true],
			] as const) {
				await target.call(
					"submitHint",
					hint({
						source: source.endpoint,
						hashes: [1n, 2n, 3n],
						scope: "request",
						allowFramework,
					}),
					request,
				);
				const fetched = await target.call("fetch", [key(1n), key(3n)], {
					requestId: request,
				});
				expect(fetched.map(({ status, reason }) => reason ?? status)).toEqual([
					allowFramework ? "SUCCESS" : "not_at_source",
					"SUCCESS",
				]);
				for (const entry of fetched)
					if (entry.status === "SUCCESS") expect(entry.bytesOk).toBe(true);
				await release(target, fetched);
				const [delivered] = await target.call(
					"deliver",
					[{ key: key(2n) }],
					request,
				);
				expect(delivered?.reason ?? delivered?.status).toBe(
					allowFramework ? "SUCCESS" : "not_at_source",
				);
				if (allowFramework) expect(delivered?.bytesOk).toBe(true);
				await target.call("discardHint", request);
			}
			await expectDrained(source);
			await expectDrained(target);
		});

		it("a source that restarts between resolution and admission fails its hashes, and serves the next hint", async () => {
			const port = await freePort();
			const first = await rig.worker("source", { ...PATIENT, port });
			const { target, go } = await waitingTarget();
			await first.call("deposit", [{ key: key(1n) }]);
			await target.call(
				"submitHint",
				hint({ source: first.endpoint, hashes: [1n], mode: "move" }),
			);
			await untilWaiting(target, 1);
			await first.kill();
			const second = await rig.worker("source", { ...PATIENT, port });
			await go();
			expect(byHash(await target.call("outcomes", 1)).get(1n)).toBe(
				"transfer_failed",
			);
			await second.call("deposit", [{ key: key(1n) }]);
			await target.call(
				"submitHint",
				hint({ source: second.endpoint, hashes: [1n], mode: "move" }),
			);
			expect((await target.call("outcomes", 2)).at(-1)?.outcome).toBe("placed");
			await load(target, key(1n));
			await gone(second, 1n);
			await expectDrained(second);
			await expectDrained(target);
		});
	},
);
