import {
	ClosedError,
	InvalidArgumentError,
	NotQuiescentError,
	type OpHandle,
} from "kvcr-core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type JobResult, TIER_BITS, VllmKvcrTier } from "../src/index.js";
import { JobBook } from "../src/manager/job-book.js";
import {
	BLOCK,
	content,
	hint,
	key,
	type Manager,
	Managers,
	request,
} from "./support/manager-kit.js";

let managers: Managers;
beforeEach(() => {
	managers = new Managers();
});
afterEach(async () => {
	await managers.close();
});

function load(
	{ tier }: Manager,
	jobId: number,
	keys: readonly Uint8Array[],
	reqId = "r",
	firstBlock = 0,
): void {
	tier.submitLoad({
		jobId,
		keys,
		blockIds: keys.map((_, index) => firstBlock + index),
		reqContext: request(reqId),
	});
}

function resultOf(manager: Manager, jobId: number): JobResult | undefined {
	return manager.results.find((result) => result.jobId === jobId);
}

describe("jobs of the engine", () => {
	it("a store brings blocks into managed memory, a load brings their bytes back", async () => {
		const a = await managers.start("a");
		const blocks = [key(1n), key(2n)];
		for (const [block, one] of blocks.entries()) a.engine.cache(block, one);
		a.tier.submitStore({
			jobId: 7,
			keys: blocks,
			blockIds: new Int32Array([0, 1]),
			reqContext: request("r"),
		});
		managers.settle();
		expect(a.results).toEqual([{ jobId: 7, success: true }]);
		expect(blocks.map((one) => a.tier.lookup(one, request("r")))).toEqual([
			"HIT",
			"HIT",
		]);
		expect(a.tier.lookup(key(3n), request("r"))).toBe("MISS");
		load(a, 8, blocks, "r", 10);
		managers.settle();
		expect(resultOf(a, 8)).toEqual({ jobId: 8, success: true });
		expect(a.engine.bytes(10)).toEqual(content(key(1n)));
		expect(a.engine.bytes(11)).toEqual(content(key(2n)));
	});

	it("a load that succeeds in part names the blocks that are complete", async () => {
		const a = await managers.start("a");
		managers.store(a, key(1n), key(2n));
		load(a, 1, [key(1n), key(9n), key(2n)], "r", 8);
		managers.settle();
		const result = resultOf(a, 1);
		expect(result).toMatchObject({ jobId: 1, success: false });
		expect(result?.successfulKeys?.map((one) => Buffer.from(one))).toEqual(
			[key(1n), key(2n)].map((one) => Buffer.from(one)),
		);
		expect(a.engine.bytes(8)).toEqual(content(key(1n)));
		expect(a.engine.bytes(9)).toEqual(new Uint8Array(BLOCK));
		expect(a.engine.bytes(10)).toEqual(content(key(2n)));
	});

	it("a store without room fails alone, and is no load", async () => {
		const a = await managers.start("a", { managedBlocks: 2 });
		a.tier.submitStore({
			jobId: 1,
			keys: [key(1n), key(2n), key(3n)],
			blockIds: [0, 1, 2],
			reqContext: request("r"),
		});
		managers.run(2000);
		expect(a.results).toEqual([{ jobId: 1, success: false }]);
		managers.store(a, key(4n));
		expect(a.tier.lookup(key(4n), request("r"))).toBe("HIT");
	});

	it("a job without blocks is over at once", async () => {
		const { tier } = await managers.start("a");
		load({ tier } as Manager, 1, []);
		tier.submitStore({
			jobId: 2,
			keys: [],
			blockIds: [],
			reqContext: request("r"),
		});
		expect(tier.getFinishedJobs()).toEqual([
			{ jobId: 1, success: true },
			{ jobId: 2, success: true },
		]);
		expect(tier.getFinishedJobs()).toEqual([]);
	});

	it("an ID is free again once its result was collected, and not before", async () => {
		const a = await managers.start("a");
		load(a, 1, []);
		expect(() => load(a, 1, [])).toThrow(/job\.jobId .* got 1/);
		expect(a.tier.getFinishedJobs()).toEqual([{ jobId: 1, success: true }]);
		load(a, 1, [key(1n)]);
		expect(() => load(a, 1, [])).toThrow(InvalidArgumentError);
		managers.settle();
		load(a, 1, []);
		expect(a.tier.getFinishedJobs()).toEqual([{ jobId: 1, success: true }]);
	});

	it.each([
		["key", "abc", { reqId: "r" }],
		["key", new Uint8Array(11), { reqId: "r" }],
		["context.reqId", key(1n), {}],
		["context.reqId", key(1n), { reqId: "" }],
		["context.reqId", key(1n), undefined],
	])("a look-up with an unusable %s is refused", async (argument, ...call) => {
		const { tier } = await managers.start("a");
		let thrown: unknown;
		try {
			tier.lookup(...(call as unknown as Parameters<typeof tier.lookup>));
		} catch (error) {
			thrown = error;
		}
		expect(thrown).toBeInstanceOf(InvalidArgumentError);
		expect(thrown).toMatchObject({
			operation: "VllmKvcrTier.lookup",
			argument,
		});
	});

	it.each([
		["jobId", { jobId: -1 }],
		["jobId", { jobId: 1.5 }],
		["keys", { keys: key(1n) as never }],
		["keys[0]", { keys: ["abc" as never], blockIds: [0] }],
		["keys[0]", { keys: [new Uint8Array(11), key(1n)], blockIds: [0, 1] }],
		["keys[1]", { keys: [key(1n), new Uint8Array(1025)], blockIds: [0, 1] }],
		["keys[1]", { keys: [key(1n), key(1n)], blockIds: [0, 1] }],
		["blockIds", { blockIds: [0] }],
		["blockIds[1]", { blockIds: [0, 16] }],
		["blockIds[1]", { blockIds: [0, 0.5] }],
		["blockIds[1]", { blockIds: [3, 3] }],
		["reqContext.reqId", { reqContext: request("") }],
	])(
		"misuse of job.%s is refused before anything changes",
		async (field, change) => {
			const { tier } = await managers.start("a");
			const job = {
				jobId: 5,
				keys: [key(1n), key(2n)],
				blockIds: [0, 1],
				reqContext: request("r"),
				...change,
			};
			for (const call of ["submitLoad", "submitStore"] as const) {
				let thrown: unknown;
				try {
					tier[call](job);
				} catch (error) {
					thrown = error;
				}
				expect(thrown).toBeInstanceOf(InvalidArgumentError);
				expect(thrown).toMatchObject({
					operation: `VllmKvcrTier.${call}`,
					argument: `job.${field}`,
				});
			}
			expect(tier.stats().jobs).toEqual({ running: 0, withheld: 0 });
			expect(tier.getFinishedJobs()).toEqual([]);
		},
	);

	it("a load that timed out is reported only when its blocks can no longer be written", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await managers.start("target");
		managers.store(source, key(1n));
		target.tier.onNewRequest(
			request("r", {
				kvTransferParams: { kv_hint: hint(source.endpoint, [1n]) },
			}),
		);
		load(target, 1, [key(1n), key(5n)]);
		managers.run(100);
		expect(source.agent.writes).toHaveLength(1);
		// Both deadlines pass: core fails the call, and calls the memory uncertain.
		managers.run(8000);
		expect(target.results).toEqual([]);
		expect(target.tier.stats().jobs).toEqual({ running: 0, withheld: 1 });
		expect(() => load(target, 1, [])).toThrow(InvalidArgumentError);
		source.agent.writes[0]?.complete();
		managers.run(60_000, 500);
		expect(target.results).toEqual([
			{ jobId: 1, success: false, successfulKeys: [] },
		]);
		expect(target.tier.stats().jobs).toEqual({ running: 0, withheld: 0 });
	});

	it("completions of operations that no job asked for are counted, and are no results", () => {
		const book = new JobBook();
		book.start(
			"load",
			{ jobId: 1, keys: [key(1n)], blockIds: [0] },
			() => 5n as OpHandle,
			() => false,
		);
		const entries = [{ key: key(1n), status: "SUCCESS" as const }];
		for (const handle of [6n, 5n, 5n])
			book.completed(
				{ handle: handle as OpHandle, kind: "deliver", entries },
				() => false,
			);
		expect(book.take()).toEqual([{ jobId: 1, success: true }]);
		expect(book.foreign).toBe(2);
	});
});

describe("keys of a request", () => {
	it("go to the source exactly as the engine names them, and the map is never asked", async () => {
		const source = await managers.start("source");
		const target = await managers.start("target");
		const sent: string[] = [];
		managers.network.policy = ({ from, bytes }) => {
			if (from === "target") sent.push(Buffer.from(bytes).toString("latin1"));
			return {};
		};
		const [one, twin] = [key(1n, { salt: 1 }), key(1n, { salt: 2 })];
		managers.store(source, one, twin);
		// The hash is ambiguous at both sides: whoever asked the map would get no block at all.
		for (const { tier } of [source, target]) {
			tier.adapter.map?.add(one, TIER_BITS.DRAM);
			tier.adapter.map?.add(twin, TIER_BITS.DRAM);
		}
		const spies = [source, target].flatMap(({ tier }) => [
			vi.spyOn(tier.adapter, "decodeFromRouter"),
			vi.spyOn(tier.adapter, "decodeManyFromRouter"),
			...(
				["lookup", "lookupMany", "resolve", "status", "statusMany"] as const
			).map((name) =>
				vi.spyOn(
					tier.adapter.map as NonNullable<typeof tier.adapter.map>,
					name,
				),
			),
		]);
		target.tier.onNewRequest(
			request("r", {
				kvTransferParams: { kv_hint: hint(source.endpoint, [1n]) },
			}),
		);
		expect(target.tier.lookup(twin, request("r"))).toBe("HIT");
		load(target, 1, [twin]);
		managers.run(100);
		expect(resultOf(target, 1)).toEqual({ jobId: 1, success: true });
		expect(target.engine.bytes(0)).toEqual(content(twin));
		for (const spy of spies) expect(spy).not.toHaveBeenCalled();
		const text = Buffer.from(twin).toString("latin1");
		const other = Buffer.from(one).toString("latin1");
		expect(sent.some((message) => message.includes(text))).toBe(true);
		expect(sent.some((message) => message.includes(other))).toBe(false);
	});

	it("a block that is being filled is looked up again later", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await managers.start("target");
		managers.store(source, key(1n));
		target.tier.onNewRequest(
			request("carrier", {
				kvHints: hint(source.endpoint, [1n], { scope: "independent" }),
			}),
		);
		managers.run(50);
		expect(target.tier.lookup(key(1n), request("other"))).toBe("RETRY");
		source.agent.writes[0]?.complete();
		managers.run(50);
		expect(target.tier.lookup(key(1n), request("other"))).toBe("HIT");
	});
});

describe("the end of a tier", () => {
	it("draining waits for jobs and keeps their results", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await managers.start("target");
		managers.store(source, key(1n));
		target.tier.onNewRequest(
			request("r", { kvHints: hint(source.endpoint, [1n]) }),
		);
		load(target, 1, [key(1n)]);
		managers.run(50);
		target.stepping = false;
		let drained = false;
		const draining = target.tier.drainJobs().then(() => {
			drained = true;
		});
		await managers.clock.advanceAsync(100);
		expect(drained).toBe(false);
		source.agent.writes[0]?.complete();
		await managers.clock.advanceAsync(100);
		await draining;
		expect(target.tier.getFinishedJobs()).toEqual([
			{ jobId: 1, success: true },
		]);
	});

	it("draining waits for peers that read from the primary tier", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await managers.start("target");
		source.engine.cache(5, key(1n));
		target.tier.onNewRequest(
			request("r", { kvHints: hint(source.endpoint, [1n]) }),
		);
		load(target, 1, [key(1n)]);
		managers.run(50);
		source.stepping = false;
		let drained = false;
		const draining = source.tier.drainJobs().then(() => {
			drained = true;
		});
		await managers.clock.advanceAsync(100);
		expect(drained).toBe(false);
		source.agent.writes[0]?.complete();
		await managers.clock.advanceAsync(100);
		await draining;
		expect(source.tier.getFinishedJobs()).toEqual([
			{ jobId: 1_000_000, success: true },
		]);
	});

	it("draining gives up in time, and says what is open", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await managers.start("target", { drainTimeoutMs: 7000 });
		managers.store(source, key(1n));
		target.tier.onNewRequest(
			request("r", { kvHints: hint(source.endpoint, [1n]) }),
		);
		load(target, 1, [key(1n)]);
		managers.run(50);
		const draining = expect(target.tier.drainJobs()).rejects.toThrow(
			/0 jobs run, 1 have blocks that may still be written/,
		);
		await managers.clock.advanceAsync(8000);
		await draining;
		source.agent.writes[0]?.complete();
	});

	it("every job has its one result, also when the tier is shut down in the middle", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		const target = await managers.start("target");
		managers.store(source, key(1n));
		target.tier.onNewRequest(
			request("r", { kvHints: hint(source.endpoint, [1n]) }),
		);
		load(target, 1, [key(1n)]);
		managers.run(50);
		const ended = target.tier.shutdown();
		expect(target.tier.shutdown()).toBe(ended);
		expect(target.tier.hasPendingWork()).toBe(false);
		expect(() => load(target, 2, [key(1n)])).toThrow(ClosedError);
		expect(() => target.tier.lookup(key(1n), request("r"))).toThrow(
			ClosedError,
		);
		expect(() => target.tier.onNewRequest(request("r"))).toThrow(ClosedError);
		await managers.clock.advanceAsync(200);
		source.agent.writes[0]?.complete();
		await managers.clock.advanceAsync(60_000);
		await ended;
		expect(target.tier.getFinishedJobs()).toEqual([
			{ jobId: 1, success: true },
		]);
		expect(target.tier.getFinishedJobs()).toEqual([]);
	});

	it("memory that nobody can vouch for is never handed back", async () => {
		const source = await managers.start("source", {
			agentOptions: { mode: "manual" },
		});
		// Shut down before anything has been called uncertain.
		const target = await managers.start("target", { drainTimeoutMs: 10 });
		managers.store(source, key(1n));
		target.tier.onNewRequest(
			request("r", { kvHints: hint(source.endpoint, [1n]) }),
		);
		load(target, 1, [key(1n)]);
		managers.run(50);
		target.agent.close = () =>
			Promise.reject(new NotQuiescentError("close", "a write hangs"));
		const ended = expect(target.tier.shutdown()).rejects.toThrow(
			NotQuiescentError,
		);
		await managers.clock.advanceAsync(60_000);
		await ended;
		expect(target.tier.getFinishedJobs()).toEqual([]);
		expect(target.tier.stats().jobs.withheld).toBe(1);
	});
});

describe("settings", () => {
	it.each([
		["primary", { primary: {} as never }],
		["managedBlocks", { managedBlocks: -1 }],
		[
			"kvEvents.selfDescribingKvEvents",
			{
				kvEvents: { enableKvCacheEvents: true, selfDescribingKvEvents: false },
			},
		],
		["kvEvents.enableKvCacheEvents", { kvEvents: {} as never }],
		["drainTimeoutMs", { drainTimeoutMs: 0 }],
	])("%s is checked", async (argument, change) => {
		await expect(managers.start("a", change)).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ARGUMENT",
			argument,
		});
	});

	it("the capability is advertised only where router hashes can be resolved", async () => {
		const a = await managers.start("a");
		const b = await managers.start("b", { events: false });
		expect(a.tier.routerCapabilities).toEqual(["router_hint"]);
		expect(b.tier.routerCapabilities).toEqual([]);
		expect(VllmKvcrTier.tierType).toBe("kvcr");
	});
});
