/** Tests of a transfer agent's regions. */
import assert from "node:assert/strict";
import { payload, samePlaces } from "./agent-rig.js";
import { hasCode } from "./runner.js";
import type { AgentTest } from "./transfer-agent.js";

/** Declares the tests. */
export function memoryTests(test: AgentTest): void {
	test("gives out zero-filled elements that are the memory itself", async (rig) => {
		const a = await rig.agent();
		const region = await a.region(3, 100, "pool");
		assert.equal(region.label, "pool");
		assert.equal(region.elementBytes, 100);
		assert.equal(region.elementCount, 3);
		assert.equal(region.released, false);
		for (let i = 0; i < 3; i += 1) {
			const element = region.element(i);
			assert.equal(element.byteLength, 100);
			assert.ok(element.every((byte) => byte === 0));
			element.fill(i + 1);
		}
		for (let i = 0; i < 3; i += 1)
			assert.ok(region.element(i).every((byte) => byte === i + 1));
	});

	test("describes a region as peers see it", async (rig) => {
		const a = await rig.agent();
		const one = await a.region(3, 64, "");
		const two = await a.region(5, 128, "two");
		for (const region of [one, two]) {
			const { descriptor } = region;
			assert.equal(descriptor.label, region.label);
			assert.equal(descriptor.count, region.elementCount);
			assert.equal(descriptor.size, region.elementBytes);
			assert.ok(
				descriptor.stride === 0 || descriptor.stride === descriptor.size,
			);
			assert.equal(typeof descriptor.addr, "bigint");
			assert.equal(typeof descriptor.memType, "string");
			assert.equal(typeof descriptor.deviceId, "number");
		}
		assert.notEqual(one.descriptor.addr, two.descriptor.addr);
	});

	test("refuses elements that are not there", async (rig) => {
		const a = await rig.agent();
		const region = await a.region(3, 64);
		for (const index of [-1, 3, 1.5, Number.NaN, 2 ** 32])
			assert.throws(
				() => region.element(index),
				hasCode("ERR_KVCR_ELEMENT_OUT_OF_RANGE"),
				`${index}`,
			);
	});

	test("refuses unusable region specs", async (rig) => {
		const { agent } = await rig.agent();
		const good = { label: "x", elementBytes: 64, elementCount: 1 };
		const bad: object[] = [
			{ elementBytes: 0 },
			{ elementBytes: -1 },
			{ elementBytes: 1.5 },
			{ elementBytes: Number.NaN },
			{ elementCount: 0 },
			{ elementCount: 2.5 },
			{ elementCount: Number.POSITIVE_INFINITY },
			{ elementBytes: 2 ** 52, elementCount: 2 ** 52 },
			{ label: 7 },
		];
		for (const change of bad)
			await assert.rejects(
				agent.createRegion({ ...good, ...change }),
				hasCode("ERR_KVCR_INVALID_ARGUMENT"),
				JSON.stringify(change),
			);
		for (const spec of [undefined, null, 5])
			await assert.rejects(
				async () => agent.createRegion(spec as never),
				hasCode("ERR_KVCR_INVALID_ARGUMENT"),
				String(spec),
			);
		await agent.createRegion(good);
	});

	test("ends a region once and for all when it is released", async (rig) => {
		const a = await rig.agent();
		const region = await a.region(2, 64);
		const view = region.element(1);
		region.release();
		region.release();
		assert.equal(region.released, true);
		assert.equal(view.length, 0);
		assert.throws(() => region.element(0), hasCode("ERR_KVCR_REGION_RELEASED"));
	});

	test("keeps the other regions when one is released", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		(await writer.region(2, 64)).release();
		(await reader.region(2, 64)).release();
		from.element(0).fill(3);
		await writer.done(
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(1),
			}),
		);
		assert.equal(to.element(0)[0], 3);
	});

	test("does not release a region that a write in flight reads", async (rig) => {
		const { writer, from, remote } = await rig.pair(8, 1 << 20);
		const transfer = writer.agent.write({
			remote,
			pairs: samePlaces(from, [0, 1, 2, 3, 4, 5, 6, 7]),
			notification: payload(1),
		});
		let refused = false;
		try {
			from.release();
		} catch (error) {
			refused = hasCode("ERR_KVCR_REGION_BUSY")(error);
		}
		if (refused) {
			assert.equal(from.released, false);
			assert.equal(from.element(0).length, 1 << 20);
			await writer.done(transfer);
		} else {
			// Only right when the write was already over: then its completion waits to be taken.
			writer.take();
			assert.ok(
				writer.completions.some((c) => c.transfer === transfer),
				"a region was released under a write in flight",
			);
			return;
		}
		from.release();
		assert.equal(from.released, true);
	});
}
