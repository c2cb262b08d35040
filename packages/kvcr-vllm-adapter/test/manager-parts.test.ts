import {
	type BlockKey,
	type MemoryRegion,
	type OpHandle,
	silentLogger,
	TransferError,
} from "kvcr-core";
import { MemoryFabric } from "kvcr-core/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { BlocksAtRisk } from "../src/manager/blocks-at-risk.js";
import { OffloadingEvents } from "../src/manager/offloading-events.js";
import { PrimaryPins } from "../src/manager/primary-pins.js";
import { BLOCK, key, TestEngine } from "./support/manager-kit.js";

describe("blocks at risk", () => {
	const report = (
		state: "uncertain" | "quiesced",
		handle: bigint,
		blocks: readonly number[],
		{ side = "destination", owner = "framework" } = {} as {
			side?: "destination" | "source";
			owner?: "framework" | "kvcr";
		},
	) =>
		new TransferError(
			state,
			side,
			handle as OpHandle,
			blocks.map((element) => ({ label: "", element, owner })),
		);

	it("stay so until every transfer that may write to them has ended", () => {
		const atRisk = new BlocksAtRisk();
		atRisk.take(report("uncertain", 1n, [3, 4]));
		atRisk.take(report("uncertain", 2n, [4, 5]));
		atRisk.take(report("quiesced", 1n, [3, 4]));
		expect([3, 4, 5, 6].map(atRisk.has)).toEqual([false, true, true, false]);
		// Said twice, it does not count for somebody else's transfer.
		atRisk.take(report("quiesced", 1n, [3, 4]));
		expect(atRisk.has(4)).toBe(true);
		atRisk.take(report("quiesced", 2n, [4, 5]));
		expect([3, 4, 5].some(atRisk.has)).toBe(false);
	});

	it("are neither managed memory nor memory that is only read", () => {
		const atRisk = new BlocksAtRisk();
		atRisk.take(report("uncertain", 1n, [3], { owner: "kvcr" }));
		atRisk.take(report("uncertain", 2n, [4], { side: "source" }));
		expect([3, 4].some(atRisk.has)).toBe(false);
	});

	it("are all of them once nothing can be proven", () => {
		const atRisk = new BlocksAtRisk();
		atRisk.giveUp();
		expect(atRisk.has(0)).toBe(true);
	});
});

describe("pins on the primary tier", () => {
	let region: MemoryRegion;
	let engine: TestEngine;
	let pins: PrimaryPins;
	beforeEach(async () => {
		region = await new MemoryFabric()
			.agent("a")
			.createRegion({ label: "", elementBytes: BLOCK, elementCount: 8 });
		engine = new TestEngine(region);
		engine.lent = true;
		pins = new PrimaryPins(region, silentLogger);
	});

	it("wake whoever polls when there are answers, and only then", () => {
		let woken = 0;
		pins.attach(() => {
			woken += 1;
		});
		pins.serve(engine);
		expect(woken).toBe(0);
		const id = pins.request([key(1n) as BlockKey]);
		pins.serve(engine);
		expect(woken).toBe(1);
		expect([...pins.pollResults()]).toEqual([[id, undefined]]);
		expect([...pins.pollResults()]).toEqual([]);
	});

	it("that were withdrawn are never asked of the engine", () => {
		engine.cache(1, key(1n));
		const id = pins.request([key(1n) as BlockKey]);
		pins.cancel(id);
		pins.serve(engine);
		expect(engine.calls).toEqual([]);
		expect([...pins.pollResults()]).toEqual([]);
	});

	it("finish their job once, however often they are released", () => {
		engine.cache(1, key(1n));
		pins.request([key(1n) as BlockKey, key(2n) as BlockKey]);
		pins.serve(engine);
		const [[, granted] = []] = [...pins.pollResults()];
		expect([...(granted?.blocks.values() ?? [])]).toEqual([
			[{ label: "", region, element: 1 }],
			undefined,
		]);
		expect(pins.active).toBe(1);
		expect(pins.release(granted?.handle ?? "")).toBe(true);
		expect(pins.release(granted?.handle ?? "")).toBe(true);
		expect(pins.release("kvcr-job-77")).toBe(true);
		expect(pins.takeResults()).toEqual([{ jobId: 1_000_000, success: true }]);
		expect(pins.takeResults()).toEqual([]);
	});

	it("do not share a job: one whose ID is in use stays the other's", () => {
		engine.cache(1, key(1n));
		for (let round = 0; round < 2; round += 1) {
			engine.nextJob = { jobId: 5, keys: [key(1n)], blockIds: [1] };
			pins.request([key(1n) as BlockKey]);
			pins.serve(engine);
		}
		const answers = [...pins.pollResults()].map(([, granted]) => granted);
		expect(answers[0]).toBeDefined();
		expect(answers[1]).toBeUndefined();
		expect(pins.takeResults()).toEqual([]);
		pins.release(answers[0]?.handle ?? "");
		expect(pins.takeResults()).toEqual([{ jobId: 5, success: true }]);
	});
});

it("events are about memory of the tier's own: managed memory and disk", () => {
	const events = new OffloadingEvents();
	const keys = [key(1n) as BlockKey];
	for (const tier of ["HBM", "DRAM", "FW_DRAM", "G3", "REMOTE_G2"] as const)
		events.add({ keys, tier, removed: tier === "G3" });
	events.add({ keys: [], tier: "DRAM", removed: false });
	const common = { keys, ownership: "kvcr", removalExpected: true };
	expect(events.take()).toEqual([
		{ ...common, medium: "CPU", removed: false },
		{ ...common, medium: "STORAGE", removed: true },
	]);
	expect(events.take()).toEqual([]);
});
