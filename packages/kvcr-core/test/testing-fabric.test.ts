import { describe, expect, it } from "vitest";
import type { ScriptedAgentOptions } from "../src/testing/index.js";
import { ManualClock, MemoryFabric } from "../src/testing/index.js";

const note = Uint8Array.from([7]);

async function setup(options: ScriptedAgentOptions = {}) {
	const clock = new ManualClock();
	const fabric = new MemoryFabric({ clock, agents: options });
	const a = fabric.agent("a");
	const b = fabric.agent("b");
	const from = await a.createRegion({
		label: "s",
		elementBytes: 4,
		elementCount: 3,
	});
	const to = await b.createRegion({
		label: "d",
		elementBytes: 4,
		elementCount: 3,
	});
	for (let i = 0; i < 3; i += 1) from.element(i).fill(i + 1);
	const remote = a.addRemote(b.localMetadata(), [to.descriptor]);
	const post = (elements: number[]) =>
		a.write({
			remote,
			pairs: elements.map((element) => ({
				region: from,
				element,
				remoteRegion: 0,
				remoteElement: element,
			})),
			notification: note,
		});
	const landed = () => [0, 1, 2].map((i) => to.element(i)[0]);
	return { clock, fabric, a, b, from, to, remote, post, landed };
}

describe("ScriptedTransferAgent", () => {
	it("completes by itself in auto mode: bytes, notification, completion, one wake each side", async () => {
		const { clock, a, b, post, landed } = await setup({ latencyMs: 2 });
		let wakes = "";
		a.attach(() => {
			wakes += "a";
		});
		b.attach(() => {
			wakes += "b";
		});
		const first = post([0]);
		const second = post([2]);
		clock.advance(1);
		expect(landed()).toEqual([0, 0, 0]);
		clock.advance(1);
		expect(landed()).toEqual([1, 0, 3]);
		expect(wakes).toBe("ba");
		expect(a.takeCompletions()).toEqual([
			{ transfer: first, outcome: "done" },
			{ transfer: second, outcome: "done" },
		]);
		expect(b.takeNotifications()).toEqual([
			{ from: "a", payload: note },
			{ from: "a", payload: note },
		]);
	});

	it("keeps a manual write in flight until the test ends it, moving bytes piecewise", async () => {
		const { clock, a, b, from, post, landed } = await setup({ mode: "manual" });
		const id = post([0, 1, 2]);
		clock.advance(1000);
		const [write] = a.writes;
		expect(write?.copy(2)).toBe(2);
		expect(landed()).toEqual([1, 2, 0]);
		expect(() => from.release()).toThrow(/still used/);
		expect(a.cancel(id)).toBe(true);
		expect(write?.cancelRequested).toBe(true);
		from.element(2).fill(9);
		expect(write?.complete()).toBe(true);
		expect(write?.fail()).toBe(false);
		expect(landed()).toEqual([1, 2, 9]);
		expect(a.takeCompletions()).toHaveLength(1);
		expect(b.takeNotifications()).toHaveLength(1);
		expect(a.cancel(id)).toBe(false);
		from.release();
	});

	it("fails a write whose target released the region, crashed, restarted or is cut off", async () => {
		const { fabric, a, b, to, post } = await setup({ mode: "manual" });
		const end = () => {
			a.writes[0]?.complete();
			return a.takeCompletions()[0];
		};
		post([0]);
		fabric.cut("b", "a");
		expect(end()).toMatchObject({
			outcome: "failed",
			reason: expect.stringContaining("cut"),
		});
		fabric.heal();
		post([0]);
		to.release();
		expect(end()).toMatchObject({
			outcome: "failed",
			reason: expect.stringContaining("released"),
		});
		post([0]);
		b.crash();
		fabric.agent("b");
		expect(end()).toMatchObject({
			outcome: "failed",
			reason: expect.stringContaining("gone"),
		});
	});

	it("stalls for good, which close refuses to hide", async () => {
		const { clock, a, from, post } = await setup({ fate: () => "stall" });
		post([0]);
		clock.advance(10);
		await expect(a.close()).rejects.toMatchObject({
			code: "ERR_KVCR_NOT_QUIESCENT",
		});
		expect(from.released).toBe(false);
		a.writes[0]?.fail();
		await a.close();
		expect(from.released).toBe(true);
	});

	it("a crashed writer moves nothing any more and completes nothing", async () => {
		const { clock, a, post, landed } = await setup({ latencyMs: 5 });
		post([0]);
		a.crash();
		clock.advance(10);
		expect(landed()).toEqual([0, 0, 0]);
		expect(a.takeCompletions()).toEqual([]);
		expect(() => a.localMetadata()).toThrow(/closed/);
	});

	it("wakes for incoming traffic only while it is expected, when told so", async () => {
		const { clock, b, post } = await setup({ incomingWakes: "expected" });
		let wakes = 0;
		b.attach(() => wakes++);
		post([0]);
		clock.advance(1);
		expect(wakes).toBe(0);
		const expectation = b.expectTraffic();
		clock.advance(1);
		expect(wakes).toBe(1);
		expectation.end();
		expectation.end();
		expect(b.expectations).toBe(0);
	});
});
