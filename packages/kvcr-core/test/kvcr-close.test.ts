import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ClosedError, type Kvcr, NotQuiescentError } from "../src/index.js";
import { settle } from "../src/testing/index.js";
import {
	Cluster,
	hint,
	key,
	outcomesOf,
	type Peer,
} from "./support/cluster.js";
import { ScriptedPins } from "./support/pins.js";

const A = key(1n);

let cluster: Cluster;
let source: Peer;
let target: Peer;
let pins: ScriptedPins;

beforeEach(async () => {
	cluster = new Cluster();
	pins = new ScriptedPins();
	source = await cluster.peer("source", {
		agentOptions: { mode: "manual" },
		frameworkElements: 4,
		pins,
	});
	target = await cluster.peer("target", { frameworkElements: 4 });
	cluster.deposit(source, A);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.clock.advanceAsync(60_000);
});

function deliver(): bigint {
	const region = target.framework as never;
	target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
	const handle = target.kvcr.deliver(
		[{ key: A, pieces: [{ label: "kv", region, element: 0 }] }],
		{ requestId: "r" },
	);
	cluster.settle();
	return handle;
}

async function closed(kvcr: Kvcr): Promise<"pending" | "closed" | Error> {
	let state: "pending" | "closed" | Error = "pending";
	kvcr.close().then(
		() => {
			state = "closed";
		},
		(error: Error) => {
			state = error;
		},
	);
	await settle();
	return state;
}

describe("close", () => {
	it("ends open operations as closed, each once, and lets them be collected", async () => {
		const handle = deliver();
		source.agent.writes[0]?.vanish();
		const closing = target.kvcr.close();
		await cluster.clock.advanceAsync(3_000);
		await closing;
		target.results.push(...target.kvcr.pollCompleted());
		expect(outcomesOf(target, handle as never)).toEqual(["closed"]);
		expect(target.kvcr.pollCompleted()).toEqual([]);
		expect(() => target.kvcr.query([A])).toThrow(ClosedError);
		expect(target.agent.regionCount).toBe(0);
		expect(target.agent.expectations).toBe(0);
		expect(await closed(target.kvcr)).toBe("closed");
	});

	it("of a source does not take longer than its writes do", async () => {
		deliver();
		const write = source.agent.writes[0];
		expect(await closed(source.kvcr)).toBe("pending");
		expect(write?.cancelRequested).toBe(true);
		write?.complete();
		await cluster.clock.advanceAsync(0);
		await settle();
		expect(await closed(source.kvcr)).toBe("closed");
	});

	it("of an idle instance leaves no timer behind", async () => {
		await target.kvcr.close();
		await source.kvcr.close();
		expect(cluster.clock.pending).toBe(0);
	});

	it("that cannot prove quiescence throws, keeps the memory, tells the owner which is at risk, and leaves no timer", async () => {
		const handle = deliver();
		const write = source.agent.writes[0];
		write?.stall();
		const sourceClosing = source.kvcr.close();
		const failed =
			expect(sourceClosing).rejects.toBeInstanceOf(NotQuiescentError);
		await cluster.clock.advanceAsync(10_000);
		await failed;
		expect(source.agent.regionCount).toBeGreaterThan(0);
		expect(source.reports?.map((one) => one.state)).toEqual(["uncertain"]);

		target.agent.close = async () => {
			throw new NotQuiescentError("close", "a write is in flight");
		};
		const targetClosing = target.kvcr.close();
		const failedToo =
			expect(targetClosing).rejects.toBeInstanceOf(NotQuiescentError);
		await cluster.clock.advanceAsync(10_000);
		await failedToo;
		target.results.push(...target.kvcr.pollCompleted());
		expect(outcomesOf(target, handle as never)).toEqual(["uncertain"]);
		expect(target.reports?.map((one) => one.state)).toEqual(["uncertain"]);
		await cluster.clock.advanceAsync(60_000);
		expect(cluster.clock.pending).toBe(0);
	});

	it("names pins the framework does not take back", async () => {
		const F = key(5n);
		pins.keep(source.framework as never, F);
		target.kvcr.submitHint(hint(source.endpoint, [5n]), "f");
		target.kvcr.fetch([F], { requestId: "f" });
		cluster.settle();
		expect(pins.held.size).toBe(1);
		pins.accepts = false;
		const closing = source.kvcr.close();
		const failed = expect(closing).rejects.toMatchObject({
			code: "ERR_KVCR_PINS_HELD",
		});
		source.agent.writes[0]?.complete();
		await cluster.clock.advanceAsync(3_000);
		await failed;
		expect(source.agent.regionCount).toBe(0);
	});
});
