import { InvalidArgumentError } from "kvcr-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { KV_HINT_KEY } from "../src/index.js";
import {
	content,
	hint,
	key,
	type Manager,
	Managers,
	nextJobId,
	request,
} from "./support/manager-kit.js";

let managers: Managers;
let source: Manager;
let target: Manager;
beforeEach(async () => {
	managers = new Managers();
	source = await managers.start("source");
	target = await managers.start("target");
});
afterEach(async () => {
	await managers.close();
});

describe("hints of requests", () => {
	it.each([
		[
			"kv_hint as text",
			(text: string) => ({ kvTransferParams: { [KV_HINT_KEY]: text } }),
		],
		[
			"kv_hint as bytes",
			(text: string) => ({
				kvTransferParams: { [KV_HINT_KEY]: new Uint8Array(Buffer.from(text)) },
			}),
		],
		[
			"kv_hint as an object",
			(text: string) => ({
				kvTransferParams: { [KV_HINT_KEY]: JSON.parse(text) },
			}),
		],
		["kvHints", (text: string) => ({ kvHints: text })],
	])(
		"%s is advice for the loads of its request, until it finishes",
		(_name, carry) => {
			managers.store(source, key(7n));
			const context = request("r", carry(hint(source.endpoint, [7n])));
			expect(target.tier.onNewRequest(context)).toEqual({
				policy: "chunk_level",
			});
			expect(target.tier.lookup(key(7n), context)).toBe("HIT");
			expect(target.tier.lookup(key(7n), request("other"))).toBe("MISS");
			target.tier.submitLoad({
				jobId: 1,
				keys: [key(7n)],
				blockIds: [3],
				reqContext: context,
			});
			managers.run(100);
			expect(target.results).toEqual([{ jobId: 1, success: true }]);
			expect(target.engine.bytes(3)).toEqual(content(key(7n)));
			target.tier.onRequestFinished(context);
			expect(target.tier.lookup(key(7n), context)).toBe("MISS");
			// Finishing again, or what never began, is no error.
			target.tier.onRequestFinished(context);
			target.tier.onRequestFinished(request("nobody"));
			expect(target.tier.stats().kvcr.advice).toBe(0);
			expect(target.tier.stats().hints).toEqual({ submitted: 1, malformed: 0 });
		},
	);

	it("router hashes beyond 2^53 survive as text", () => {
		const huge = 13835058055282163713n;
		managers.store(source, key(huge));
		const context = request("r", {
			kvTransferParams: { [KV_HINT_KEY]: hint(source.endpoint, [huge]) },
		});
		target.tier.onNewRequest(context);
		expect(target.tier.lookup(key(huge), context)).toBe("HIT");
		expect(target.tier.lookup(key(huge - 1n), context)).toBe("MISS");
	});

	it.each([
		["no JSON", "{"],
		["no envelope", "[]"],
		["no action", '{"protocol_version":"0.1","actions":[]}'],
		["a number", 5],
		["an unsafe number in an object", JSON.parse(hint("x", [2n ** 63n + 1n]))],
		["a bad mode", hint("memory://source", [1n]).replace("copy", "steal")],
	])(
		"a malformed hint (%s) is counted, and its request goes on",
		(_name, bad) => {
			managers.store(target, key(1n));
			for (const reqId of ["r1", "r2"]) {
				const context = request(reqId, {
					kvTransferParams: { [KV_HINT_KEY]: bad },
				});
				expect(target.tier.onNewRequest(context)).toEqual({
					policy: "chunk_level",
				});
				expect(target.tier.lookup(key(1n), context)).toBe("HIT");
				target.tier.onRequestFinished(context);
			}
			expect(target.tier.stats().hints).toEqual({ submitted: 0, malformed: 2 });
			expect(target.warnings).toEqual([
				"a request carries a malformed hint; it goes on without",
			]);
			expect(target.tier.stats().kvcr.advice).toBe(0);
		},
	);

	it.each([
		{},
		{ kvTransferParams: null },
		{ kvTransferParams: {} },
		{ kvTransferParams: { [KV_HINT_KEY]: null } },
		{ kvTransferParams: "kv_hint" as never },
		{ kvHints: null },
	])("a request without a hint is an ordinary one: %j", (more) => {
		target.tier.onNewRequest(request("r", more));
		expect(target.tier.stats().hints).toEqual({ submitted: 0, malformed: 0 });
	});

	it("a request without ID is misuse", () => {
		for (const call of ["onNewRequest", "onRequestFinished"] as const)
			expect(() => target.tier[call]({} as never)).toThrow(
				InvalidArgumentError,
			);
		expect(() => target.tier.lookup(key(1n), request(""))).toThrow(
			InvalidArgumentError,
		);
		expect(() => target.tier.lookup("key" as never, request("r"))).toThrow(
			InvalidArgumentError,
		);
	});

	it("independent placement outlives its carrier, and shows as an event", () => {
		managers.store(source, key(1n), key(2n));
		source.tier.takeEvents();
		const carrier = request("carrier", {
			kvHints: hint(source.endpoint, [1n, 2n], {
				scope: "independent",
				mode: "move",
			}),
		});
		target.tier.onNewRequest(carrier);
		target.tier.onRequestFinished(carrier);
		managers.run(100);
		expect(target.tier.lookup(key(1n), request("later"))).toBe("HIT");
		const placed = target.tier.takeEvents();
		expect(placed.flatMap(({ keys }) => keys)).toHaveLength(2);
		expect(placed[0]).toMatchObject({
			medium: "CPU",
			removed: false,
			ownership: "kvcr",
			removalExpected: true,
		});
		const gone = source.tier.takeEvents();
		expect(gone.every(({ removed }) => removed)).toBe(true);
		expect(gone.flatMap(({ keys }) => keys)).toHaveLength(2);
		expect(source.tier.lookup(key(1n), request("later"))).toBe("MISS");
		expect(source.tier.takeEvents()).toEqual([]);
	});

	it("ten thousand hints that nobody follows leave nothing behind", () => {
		for (let i = 0; i < 10_000; i += 1) {
			const context = request(`r${i}`, {
				kvHints: hint(source.endpoint, [BigInt(i)]),
			});
			target.tier.onNewRequest(context);
			target.tier.onRequestFinished(context);
		}
		managers.run(100);
		const { kvcr, pins, jobs } = target.tier.stats();
		expect(kvcr).toMatchObject({ advice: 0, operations: { open: 0 } });
		expect({ pins, jobs }).toEqual({
			pins: { pending: 0, active: 0, failed: 0 },
			jobs: { running: 0, withheld: 0 },
		});
	});
});

describe("KV cache events disabled", () => {
	it("nothing is reported, peers cannot resolve hashes, and everything else works", async () => {
		const quiet = await managers.start("quiet", { events: false });
		managers.store(quiet, key(1n));
		expect(quiet.tier.takeEvents()).toEqual([]);
		expect(quiet.tier.adapter.map).toBeUndefined();
		const carrier = request("carrier", {
			kvHints: hint(quiet.endpoint, [1n], { scope: "independent" }),
		});
		target.tier.onNewRequest(carrier);
		managers.run(100);
		expect(
			target.tier.stats().kvcr.counters[
				'kvcr_hint_outcomes_total{outcome="lookup_failed"}'
			],
		).toBe(1);
		const context = request("r", { kvHints: hint(quiet.endpoint, [1n]) });
		target.tier.onNewRequest(context);
		target.tier.submitLoad({
			jobId: 1,
			keys: [key(1n)],
			blockIds: [0],
			reqContext: context,
		});
		managers.run(100);
		expect(target.results).toEqual([{ jobId: 1, success: true }]);
		expect(target.engine.bytes(0)).toEqual(content(key(1n)));
	});
});

describe("pins on the primary tier", () => {
	/** A load of a block that the source has in its primary tier only. */
	function loadFromPrimary(...hashes: bigint[]): number {
		const jobId = nextJobId();
		const context = request(`r${jobId}`, {
			kvHints: hint(source.endpoint, hashes),
		});
		target.tier.onNewRequest(context);
		target.tier.submitLoad({
			jobId,
			keys: hashes.map((hash) => key(hash)),
			blockIds: hashes.map((_, block) => block),
			reqContext: context,
		});
		return jobId;
	}

	it("are store jobs, made while the engine lends its manager and finished when nobody reads", () => {
		source.engine.cache(5, key(1n));
		source.serving = false;
		const jobId = loadFromPrimary(1n, 2n);
		managers.run(100);
		expect(source.tier.stats().pins).toEqual({
			pending: 1,
			active: 0,
			failed: 0,
		});
		expect(source.engine.calls).toEqual([]);
		source.serving = true;
		managers.run(100);
		expect(source.engine.calls).toEqual([
			"onNewRequest kvcr-source:1",
			"lookup",
			"lookup",
			"createStoreJob",
			"onRequestFinished kvcr-source:1",
		]);
		expect(target.results).toMatchObject([{ jobId, success: false }]);
		expect(target.results[0]?.successfulKeys).toHaveLength(1);
		expect(target.engine.bytes(0)).toEqual(content(key(1n)));
		// Its store job is over: the engine may reuse the block.
		expect(source.engine.storeJobs.size).toBe(0);
		expect(source.results).toEqual([{ jobId: 1_000_000, success: true }]);
		expect(source.tier.stats().pins).toEqual({
			pending: 0,
			active: 0,
			failed: 0,
		});
	});

	it("a block nobody has makes no job", () => {
		const jobId = loadFromPrimary(1n);
		managers.run(100);
		expect(source.engine.calls).toEqual([
			"onNewRequest kvcr-source:1",
			"lookup",
			"onRequestFinished kvcr-source:1",
		]);
		expect(target.results).toEqual([
			{ jobId, success: false, successfulKeys: [] },
		]);
	});

	it("blocks that the engine makes no job for are left out, and the next peer is served", () => {
		source.engine.cache(5, key(1n));
		source.engine.cache(6, key(2n));
		source.serving = false;
		source.engine.nextJob = null;
		const first = loadFromPrimary(1n);
		const second = loadFromPrimary(2n);
		managers.run(100);
		source.serving = true;
		managers.run(100);
		expect(target.results).toEqual([
			{ jobId: first, success: false, successfulKeys: [] },
			{ jobId: second, success: true },
		]);
		expect(source.warnings).toEqual([]);
		expect(source.tier.stats().pins).toEqual({
			pending: 0,
			active: 0,
			failed: 0,
		});
	});

	it.each(["onNewRequest", "lookup", "createStoreJob", "onRequestFinished"])(
		"an engine whose %s fails loses that request of a peer, and nothing else",
		(name) => {
			source.engine.cache(5, key(1n));
			source.engine.failing = name;
			const first = loadFromPrimary(1n);
			managers.run(100);
			const harmless = name === "onRequestFinished";
			expect(target.results).toMatchObject([
				{ jobId: first, success: harmless },
			]);
			expect(source.warnings).toHaveLength(1);
			const second = loadFromPrimary(1n);
			managers.run(100);
			expect(target.results[1]).toEqual({ jobId: second, success: true });
			expect(source.engine.storeJobs.size).toBe(0);
			expect(source.tier.stats().pins).toEqual({
				pending: 0,
				active: 0,
				failed: harmless ? 0 : 1,
			});
		},
	);

	it.each([
		["another key", [key(9n)], [5]],
		["a block outside the primary tier", [key(1n)], [99]],
		["no block", [key(1n)], []],
		["too many blocks", [key(1n)], [5, 6]],
		["nothing", [], []],
	])("a store job with %s is refused and finished", (_name, keys, blockIds) => {
		source.engine.cache(5, key(1n));
		source.engine.nextJob = { jobId: 77, keys, blockIds };
		const jobId = loadFromPrimary(1n);
		managers.run(100);
		expect(target.results).toMatchObject([{ jobId, success: false }]);
		expect(source.results).toEqual([{ jobId: 77, success: false }]);
		expect(source.tier.stats().pins).toEqual({
			pending: 0,
			active: 0,
			failed: 1,
		});
	});

	it("one read by a peer in flight holds its store job, also through a shutdown", async () => {
		source.agent.mode = "manual";
		source.engine.cache(5, key(1n));
		loadFromPrimary(1n);
		managers.run(100);
		expect(source.tier.stats().pins.active).toBe(1);
		expect(source.engine.storeJobs.size).toBe(1);
		source.stepping = false;
		const ended = source.tier.shutdown();
		await managers.clock.advanceAsync(100);
		expect(source.tier.getFinishedJobs()).toEqual([]);
		source.agent.writes[0]?.complete();
		await managers.clock.advanceAsync(10_000);
		await ended;
		expect(source.tier.getFinishedJobs()).toEqual([
			{ jobId: 1_000_000, success: true },
		]);
	});
});
