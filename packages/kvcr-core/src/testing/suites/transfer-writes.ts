/** Tests of a transfer agent's writes, completions and notifications. */
import assert from "node:assert/strict";
import type { ElementPair, WriteRequest } from "../../ports/transfer-agent.js";
import {
	assertBlank,
	assertPainted,
	paint,
	payload,
	samePlaces,
} from "./agent-rig.js";
import { hasCode } from "./runner.js";
import type { AgentTest } from "./transfer-agent.js";

/** Declares the tests. */
export function writeTests(test: AgentTest): void {
	test("delivers the bytes, then the notification, then one completion", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		paint(from, 2, 5);
		const transfer = writer.agent.write({
			remote,
			pairs: [{ region: from, element: 2, remoteRegion: 0, remoteElement: 1 }],
			notification: payload(9),
		});
		await reader.until(
			"the notification",
			() => reader.notifications.length > 0,
		);
		assertPainted(to, 1, 5);
		assertBlank(to, 0);
		assertBlank(to, 2);
		assert.deepEqual(
			reader.notifications.map((n) => [n.from, [...n.payload]]),
			[[writer.name, [...payload(9)]]],
		);
		await writer.done(transfer);
		await rig.quiet();
		assert.equal(writer.completions.length, 1);
		assert.equal(reader.notifications.length, 1);
		assert.equal(reader.completions.length, 0);
	});

	test("has all bytes in place when a notification is seen, write after write", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair(16, 65_537);
		for (let round = 1; round <= 12; round += 1) {
			const elements = Array.from({ length: 16 }, (_, i) => i);
			for (const i of elements) paint(from, i, round + i);
			const before = reader.notifications.length;
			const transfer = writer.agent.write({
				remote,
				pairs: samePlaces(from, elements),
				notification: payload(round),
			});
			await reader.until(
				"the notification",
				() => reader.notifications.length > before,
			);
			for (const i of elements) assertPainted(to, i, round + i);
			await writer.done(transfer);
		}
	});

	test("writes across 64 regions on either side in one request", async (rig) => {
		const [writer, reader] = [await rig.agent(), await rig.agent()];
		const from = [];
		const to = [];
		for (let i = 0; i < 64; i += 1) {
			from.push(await writer.region(2, 100 + i, `from${i}`));
			to.push(await reader.region(2, 100 + i, `to${i}`));
		}
		const remote = writer.load(reader, to);
		const pairs: ElementPair[] = [];
		from.forEach((region, i) => {
			paint(region, i % 2, i);
			pairs.push({
				region,
				element: i % 2,
				remoteRegion: i,
				remoteElement: (i + 1) % 2,
			});
		});
		await writer.done(
			writer.agent.write({ remote, pairs, notification: payload(1) }),
		);
		to.forEach((region, i) => {
			assertPainted(region, (i + 1) % 2, i);
			assertBlank(region, i % 2);
		});
	});

	test("writes thousands of pairs in one request", async (rig) => {
		const count = 4_096;
		const { writer, from, to, remote } = await rig.pair(count, 16);
		const pairs: ElementPair[] = [];
		for (let i = 0; i < count; i += 1) {
			paint(from, i, i);
			pairs.push({
				region: from,
				element: i,
				remoteRegion: 0,
				remoteElement: count - 1 - i,
			});
		}
		await writer.done(
			writer.agent.write({ remote, pairs, notification: payload(1) }),
		);
		for (let i = 0; i < count; i += 1) assertPainted(to, count - 1 - i, i);
	});

	for (const size of [1, 7, 4_097, 1 << 20, (4 << 20) + 3])
		test(`writes elements of ${size} bytes`, async (rig) => {
			const { writer, from, to, remote } = await rig.pair(3, size);
			for (const i of [0, 1, 2]) paint(from, i, i + 1);
			await writer.done(
				writer.agent.write({
					remote,
					pairs: samePlaces(from, [0, 2]),
					notification: payload(1),
				}),
			);
			assertPainted(to, 0, 1);
			assertBlank(to, 1);
			assertPainted(to, 2, 3);
		});

	test("completes each of many writes in flight exactly once", async (rig) => {
		const count = 200;
		const { writer, reader, from, to, remote } = await rig.pair(count, 1_000);
		const transfers = [];
		for (let i = 0; i < count; i += 1) {
			paint(from, i, i);
			transfers.push(
				writer.agent.write({
					remote,
					pairs: samePlaces(from, [i]),
					notification: payload(i),
				}),
			);
		}
		assert.equal(new Set(transfers).size, count);
		for (const transfer of transfers) await writer.done(transfer);
		await reader.until(
			"all notifications",
			() => reader.notifications.length >= count,
		);
		await rig.quiet();
		assert.equal(writer.completions.length, count);
		assert.equal(reader.notifications.length, count);
		for (let i = 0; i < count; i += 1) assertPainted(to, i, i);
		const traffic = 2 * writer.completions.length + 10;
		assert.ok(
			writer.wakes <= traffic,
			`${writer.wakes} wakes for ${count} writes`,
		);
	});

	test("coalesces wakes that nobody answered", async (rig) => {
		const count = 100;
		const { writer, from, remote } = await rig.pair(1, 64);
		writer.taking = false;
		for (let i = 0; i < count; i += 1)
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(i),
			});
		await rig.quiet();
		await rig.quiet();
		assert.ok(writer.wakes >= 1, "it was never woken");
		assert.ok(
			writer.wakes <= count + 4,
			`${writer.wakes} wakes for ${count} writes`,
		);
		writer.taking = true;
		writer.take();
		await writer.until("all", () => writer.completions.length === count);
	});

	test("writes both ways at once", async (rig) => {
		const [a, b] = [await rig.agent(), await rig.agent()];
		const [ra, rb] = [await a.region(64, 20_000), await b.region(64, 20_000)];
		const [toB, toA] = [a.load(b, [rb]), b.load(a, [ra])];
		const [first, second] = [range(0, 32), range(32, 64)];
		for (const i of first) paint(ra, i, i);
		for (const i of second) paint(rb, i, i);
		const ab = a.agent.write({
			remote: toB,
			pairs: samePlaces(ra, first),
			notification: payload(1),
		});
		const ba = b.agent.write({
			remote: toA,
			pairs: samePlaces(rb, second),
			notification: payload(2),
		});
		await Promise.all([a.done(ab), b.done(ba)]);
		for (const i of first) assertPainted(rb, i, i);
		for (const i of second) assertPainted(ra, i, i);
	});

	test("writes to itself", async (rig) => {
		const a = await rig.agent();
		const region = await a.region(4, 5_000);
		const self = a.load(a, [region]);
		paint(region, 0, 8);
		const transfer = a.agent.write({
			remote: self,
			pairs: [
				{ region, element: 0, remoteRegion: 0, remoteElement: 3 },
				{ region, element: 0, remoteRegion: 0, remoteElement: 1 },
			],
			notification: payload(4),
		});
		await a.done(transfer);
		assertPainted(region, 3, 8);
		assertPainted(region, 1, 8);
		assertBlank(region, 2);
		await a.until("its own notification", () => a.notifications.length === 1);
		assert.equal(a.notifications[0]?.from, a.name);
	});

	test("keeps free notifications of one sender in order", async (rig) => {
		const { writer, reader, remote } = await rig.pair();
		for (let i = 0; i < 200; i += 1)
			assert.equal(writer.agent.notify(remote, payload(i)), true);
		await reader.until("all", () => reader.notifications.length === 200);
		reader.notifications.forEach((notification, i) => {
			assert.equal(notification.from, writer.name);
			assert.deepEqual([...notification.payload], [...payload(i)]);
		});
	});

	test("posts nothing of a write that it refuses", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		const stranger = await reader.region(4, 4_096);
		const small = await writer.region(4, 64);
		const gone = await writer.region(4, 4_096);
		gone.release();
		for (let i = 0; i < 4; i += 1) from.element(i).fill(0xaa);
		const good = {
			region: from,
			element: 0,
			remoteRegion: 0,
			remoteElement: 0,
		};
		const cases: [string, object, string][] = [
			["element below", { element: -1 }, "ERR_KVCR_ELEMENT_OUT_OF_RANGE"],
			["element above", { element: 4 }, "ERR_KVCR_ELEMENT_OUT_OF_RANGE"],
			["element fraction", { element: 0.5 }, "ERR_KVCR_ELEMENT_OUT_OF_RANGE"],
			["remote below", { remoteElement: -1 }, "ERR_KVCR_ELEMENT_OUT_OF_RANGE"],
			["remote above", { remoteElement: 4 }, "ERR_KVCR_ELEMENT_OUT_OF_RANGE"],
			["remote region", { remoteRegion: 1 }, "ERR_KVCR_INVALID_ARGUMENT"],
			["remote region", { remoteRegion: -1 }, "ERR_KVCR_INVALID_ARGUMENT"],
			["other size", { region: small }, "ERR_KVCR_INVALID_ARGUMENT"],
			[
				"other agent's region",
				{ region: stranger },
				"ERR_KVCR_INVALID_ARGUMENT",
			],
			["released region", { region: gone }, "ERR_KVCR_REGION_RELEASED"],
		];
		for (const [what, change, code] of cases)
			assert.throws(
				() =>
					writer.agent.write({
						remote,
						// The bad pair comes last: the good ones before it must not be written either.
						pairs: [good, { ...good, element: 1 }, { ...good, ...change }],
						notification: payload(1),
					}),
				hasCode(code),
				what,
			);
		const rest: [string, Partial<WriteRequest>][] = [
			["no pairs", { pairs: [] }],
			["no notification", { notification: "x" as unknown as Uint8Array }],
		];
		for (const [what, change] of rest)
			assert.throws(
				() =>
					writer.agent.write({
						remote,
						pairs: [good],
						notification: payload(1),
						...change,
					}),
				hasCode("ERR_KVCR_INVALID_ARGUMENT"),
				what,
			);
		for (const request of [undefined, null, 5])
			assert.throws(
				() => writer.agent.write(request as never),
				hasCode("ERR_KVCR_INVALID_ARGUMENT"),
				String(request),
			);
		await rig.quiet();
		for (let i = 0; i < 4; i += 1) assertBlank(to, i);
		assert.equal(writer.completions.length, 0);
		assert.equal(reader.notifications.length, 0);
		from.release();
	});

	test("ends a cancelled write once, and does not touch its memory afterwards", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair(16, 1 << 20);
		const all = range(0, 16);
		for (const i of all) from.element(i).fill(1);
		const transfer = writer.agent.write({
			remote,
			pairs: samePlaces(from, all),
			notification: payload(1),
		});
		writer.agent.cancel(transfer);
		const { outcome } = await writer.completion(transfer);
		assert.ok(["done", "cancelled", "failed"].includes(outcome), outcome);
		for (const i of all) to.element(i).fill(2);
		await rig.quiet();
		for (const i of all)
			assert.ok(
				to.element(i).every((byte) => byte === 2),
				"bytes moved after the completion",
			);
		await reader.until(
			"the notification of a write that was done",
			() => outcome !== "done" || reader.notifications.length === 1,
		);
		assert.equal(reader.notifications.length, outcome === "done" ? 1 : 0);
		assert.equal(writer.agent.cancel(transfer), false);
		const next = writer.agent.write({
			remote,
			pairs: samePlaces(from, [0]),
			notification: payload(2),
		});
		await writer.done(next);
		assert.equal(to.element(0)[0], 1);
	});

	test("knows no transfer that it did not post", async (rig) => {
		const { writer, from, remote } = await rig.pair();
		const transfer = writer.agent.write({
			remote,
			pairs: samePlaces(from, [0]),
			notification: payload(1),
		});
		assert.equal(writer.agent.cancel((transfer + 1) as typeof transfer), false);
		await writer.done(transfer);
		assert.equal(writer.agent.cancel(transfer), false);
	});
}

function range(from: number, to: number): number[] {
	return Array.from({ length: to - from }, (_, i) => from + i);
}
