/** Tests of a transfer agent whose caller's code runs while a write is read: requests and pairs may have getters. */
import assert from "node:assert/strict";
import type { ElementPair } from "../../ports/transfer-agent.js";
import { assertBlank, assertPainted, paint, payload } from "./agent-rig.js";
import { hasCode } from "./runner.js";
import type { AgentTest } from "./transfer-agent.js";

/** Declares the tests. */
export function getterTests(test: AgentTest): void {
	test("reads every part of a write once", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		paint(from, 0, 5);
		const { once, readAgain } = changing();
		const pair = { region: from, remoteRegion: 0 };
		const sound = { ...pair, element: 0, remoteElement: 1 };
		const other = { ...pair, element: 1, remoteElement: 2 };
		const transfer = writer.agent.write(
			once(
				{ remote, pairs: [once(sound, other)], notification: payload(1) },
				{ remote, pairs: [other, other], notification: payload(2) },
			),
		);
		await writer.done(transfer);
		await reader.until(
			"the notification",
			() => reader.notifications.length > 0,
		);
		assert.deepEqual(readAgain, []);
		assertPainted(to, 1, 5);
		assertBlank(to, 2);
		assert.deepEqual(
			reader.notifications.map((n) => [...n.payload]),
			[[...payload(1)]],
		);
	});

	test("reads every part of a region to make once", async (rig) => {
		const { writer } = await rig.pair();
		const { once, readAgain } = changing();
		const spec = { label: "r", elementBytes: 64, elementCount: 4 };
		const other = { label: "s", elementBytes: 128, elementCount: 8 };
		const region = await writer.agent.createRegion(once(spec, other));
		assert.deepEqual(readAgain, []);
		const { label, elementBytes, elementCount, descriptor } = region;
		assert.deepEqual({ label, elementBytes, elementCount }, spec);
		assert.equal(descriptor.count, 4);
		assert.equal(region.element(3).length, 64);
	});

	test("reads every part of a descriptor once", async (rig) => {
		const { writer, reader, from, to } = await rig.pair();
		const { once, readAgain } = changing();
		paint(from, 0, 5);
		const { descriptor } = to;
		const elsewhere = { ...descriptor, addr: descriptor.addr + 64n, count: 1 };
		const remote = writer.agent.addRemote(reader.agent.localMetadata(), [
			once(descriptor, elsewhere),
		]);
		assert.deepEqual(readAgain, []);
		await writer.done(
			writer.agent.write({
				remote,
				pairs: [
					{ region: from, element: 0, remoteRegion: 0, remoteElement: 3 },
				],
				notification: payload(1),
			}),
		);
		await reader.until(
			"the notification",
			() => reader.notifications.length > 0,
		);
		assertPainted(to, 3, 5);
	});

	test("keeps a write apart from those made while its pairs are read", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		for (let i = 0; i < 4; i += 1) paint(from, i, 10 + i);
		const pair = (element: number): ElementPair => ({
			region: from,
			element,
			remoteRegion: 0,
			remoteElement: element,
		});
		let inside = false;
		const pairs = [
			pair(0),
			{
				...pair(1),
				get element() {
					if (!inside)
						writer.agent.write({
							remote,
							pairs: [pair(2), pair(3)],
							notification: payload(2),
						});
					inside = true;
					return 1;
				},
			},
		];
		await writer.done(
			writer.agent.write({ remote, pairs, notification: payload(1) }),
		);
		await reader.until(
			"both notifications",
			() => reader.notifications.length === 2,
		);
		for (let i = 0; i < 4; i += 1) assertPainted(to, i, 10 + i);
		await writer.until("both ends", () => writer.completions.length === 2);
		from.release();
	});

	test("refuses a write of which something ends while its pairs are read", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		const short = await writer.region(4, 4_096);
		const cases = [
			["ERR_KVCR_REGION_RELEASED", short, () => short.release()],
			["ERR_KVCR_STALE_REMOTE", from, () => writer.agent.removeRemote(remote)],
		] as const;
		for (const [code, region, end] of cases) {
			const places = { remoteRegion: 0, remoteElement: 0 };
			const pairs = [
				{ ...places, region, element: 0 },
				{
					...places,
					region: from,
					get element() {
						end();
						return 1;
					},
				},
			];
			assert.throws(
				() => writer.agent.write({ remote, pairs, notification: payload(1) }),
				hasCode(code),
			);
		}
		await rig.quiet();
		assertBlank(to, 0);
		assert.equal(reader.notifications.length, 0);
		assert.equal(writer.completions.length, 0);
		from.release();
	});
}

/** Makes objects whose fields have another value when they are read again, and keeps account of that. */
function changing() {
	const readAgain: (string | symbol)[] = [];
	const once = <T extends object>(first: T, rest: T): T => {
		const read = new Set<string | symbol>();
		return new Proxy(
			{ ...first },
			{
				get(target, field) {
					const again = read.has(field);
					if (again) readAgain.push(field);
					read.add(field);
					return Reflect.get(again ? rest : target, field);
				},
			},
		);
	};
	return { once, readAgain };
}
