/** Code of the engine and of the operator that runs inside calls of the tier: collecting, shutting down, failing. */
import { LruPolicy, type OpHandle } from "kvcr-core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { JobResult, ParentManager } from "../src/index.js";
import { JobBook } from "../src/manager/job-book.js";
import {
	content,
	hint,
	key,
	type Manager,
	Managers,
	request,
} from "./support/manager-kit.js";

let managers: Managers;
const unhandled = vi.fn();
beforeEach(() => {
	managers = new Managers();
	unhandled.mockReset();
	process.on("unhandledRejection", unhandled);
});
afterEach(async () => {
	await managers.close();
	await new Promise((resolve) => setImmediate(resolve));
	process.off("unhandledRejection", unhandled);
	expect(unhandled).not.toHaveBeenCalled();
});

/** Lets a peer load blocks that only the primary tier of `source` has, by one pin request each. */
function ask(source: Manager, peer: Manager, blocks: readonly Uint8Array[]) {
	for (const [index, one] of blocks.entries()) {
		source.engine.cache(index, one);
		const hash = Buffer.from(one).readBigUInt64BE(24);
		const reqId = `peer-${index}`;
		peer.tier.onNewRequest(
			request(reqId, {
				kvHints: hint(source.endpoint, [hash], { allowFramework: true }),
			}),
		);
		peer.tier.submitLoad({
			jobId: index + 1,
			keys: [one],
			blockIds: [8 + index],
			reqContext: request(reqId),
		});
	}
}

/** The engine of a manager with something that happens inside one of its calls. */
function inside(
	{ engine }: Manager,
	call: keyof ParentManager,
	act: () => unknown,
): void {
	const original = engine[call].bind(engine) as (...args: unknown[]) => unknown;
	Object.assign(engine, {
		[call]: (...args: unknown[]) => {
			const returned = original(...args);
			return act() ?? returned;
		},
	});
}

describe("the engine, asked for pins,", () => {
	it.each([
		"onNewRequest",
		"lookup",
		"createStoreJob",
		"onRequestFinished",
	] as const)("may collect in %s", async (call) => {
		const a = await managers.start("a");
		const b = await managers.start("b");
		const blocks = [key(1n), key(2n)];
		inside(a, call, () => {
			const finished = a.tier.getFinishedJobs();
			for (const { jobId } of finished) a.engine.storeJobs.delete(jobId);
		});
		ask(a, b, blocks);
		managers.run(500);
		expect(b.results).toEqual([
			{ jobId: 1, success: true },
			{ jobId: 2, success: true },
		]);
		expect(b.engine.bytes(9)).toEqual(content(key(2n)));
		expect(a.engine.storeJobs.size).toBe(0);
		expect(a.tier.stats().pins).toEqual({ pending: 0, active: 0, failed: 0 });
	});

	it("may ask to be served once more: each request is asked about once", async () => {
		const a = await managers.start("a");
		const b = await managers.start("b");
		inside(a, "lookup", () => a.tier.serveExternalRequests(a.engine));
		ask(a, b, [key(1n), key(2n)]);
		managers.run(500);
		expect(b.results.map(({ success }) => success)).toEqual([true, true]);
		expect(
			a.engine.calls.filter((call) => call === "createStoreJob"),
		).toHaveLength(2);
		expect(a.engine.storeJobs.size).toBe(0);
	});

	it.each(["onNewRequest", "createStoreJob"] as const)(
		"may shut the tier down in %s, and gets its store jobs back",
		async (call) => {
			const a = await managers.start("a");
			const b = await managers.start("b");
			let down: Promise<void> | undefined;
			inside(a, call, () => {
				down ??= a.tier.shutdown();
			});
			ask(a, b, [key(1n)]);
			managers.run(500);
			expect(down).toBeDefined();
			await managers.clock.advanceAsync(60_000);
			await down;
			for (const { jobId } of [...a.results, ...a.tier.getFinishedJobs()])
				a.engine.storeJobs.delete(jobId);
			expect(a.engine.storeJobs.size).toBe(0);
			expect(a.tier.stats().pins.active).toBe(0);
		},
	);

	it("may answer with promises, which fail the request and nothing else", async () => {
		const a = await managers.start("a");
		const b = await managers.start("b");
		for (const call of [
			"onNewRequest",
			"createStoreJob",
			"onRequestFinished",
		] as const)
			inside(a, call, () => Promise.reject(new Error(call)));
		ask(a, b, [key(1n)]);
		managers.run(500);
		expect(a.tier.stats().pins).toMatchObject({ pending: 0, active: 0 });
		expect(a.tier.stats().pins.failed).toBeGreaterThan(0);
		expect(a.results).toEqual([]);
	});
});

describe("a logger that fails", () => {
	it.each([
		[
			"with a throw",
			() => {
				throw new Error("the logger failed");
			},
		],
		["later", () => Promise.reject(new Error("the logger failed")) as never],
	])("%s changes nothing", async (_, fail) => {
		const logger = { debug: fail, info: fail, warn: fail, error: fail };
		const a = await managers.start("a", { logger });
		const b = await managers.start("b");
		expect(a.tier.onNewRequest(request("r", { kvHints: "{not json" }))).toEqual(
			{ policy: "chunk_level" },
		);
		expect(a.tier.stats().hints.malformed).toBe(1);
		// The job of the first request names a block that does not exist; then a request that cannot be finished.
		a.engine.nextJob = { jobId: 7, keys: [key(1n)], blockIds: [99] };
		a.engine.failing = "onRequestFinished";
		ask(a, b, [key(1n), key(2n)]);
		managers.run(500);
		expect(a.results).toContainEqual({ jobId: 7, success: false });
		expect(b.results).toContainEqual({ jobId: 2, success: true });
		expect(a.engine.storeJobs.size).toBe(0);
		expect(a.tier.stats().pins).toMatchObject({ pending: 0, active: 0 });
	});
});

describe("a job whose start runs code of the caller", () => {
	it("is reported once, also when it ended and was collected inside", async () => {
		const policy = new LruPolicy();
		const results: JobResult[] = [];
		const a = await managers.start("a", { policy });
		Object.assign(policy, {
			onIngest: () => void results.push(...a.tier.getFinishedJobs()),
		});
		a.engine.cache(1, key(1n));
		a.tier.submitStore({
			jobId: 1,
			keys: [key(1n)],
			blockIds: [1],
			reqContext: request("r"),
		});
		managers.settle();
		expect([...results, ...a.results]).toEqual([{ jobId: 1, success: true }]);
		expect(a.tier.stats()).toMatchObject({
			jobs: { running: 0 },
			foreignCompletions: 0,
		});
		await a.tier.drainJobs();
	});

	const job = (jobId: number) => ({ jobId, keys: [key(1n)], blockIds: [0] });
	const done = (handle: bigint) => ({
		handle: handle as OpHandle,
		kind: "deliver" as const,
		entries: [{ key: key(1n), status: "SUCCESS" as const }],
	});
	const safe = () => false;

	it("claims its own completion; others that came meanwhile are foreign", () => {
		const book = new JobBook();
		const begin = () => {
			expect(book.running).toBe(1);
			book.completed(done(6n), safe);
			book.completed(done(5n), safe);
			return 5n as OpHandle;
		};
		book.start("load", job(1), begin, safe);
		expect(book.take()).toEqual([{ jobId: 1, success: true }]);
		expect([book.running, book.foreign]).toEqual([0, 1]);
	});

	it("that does not start is none", () => {
		const book = new JobBook();
		const begin = () => {
			throw new Error("closed");
		};
		expect(() => book.start("load", job(1), begin, safe)).toThrow("closed");
		expect(book.running).toBe(0);
		book.start("load", job(1), () => 5n as OpHandle, safe);
		book.completed(done(5n), safe);
		expect(book.take()).toEqual([{ jobId: 1, success: true }]);
	});
});
