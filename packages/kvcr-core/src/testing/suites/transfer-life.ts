/** Tests of a transfer agent's listener, restarts and end. */
import assert from "node:assert/strict";
import {
	assertPainted,
	paint,
	payload,
	samePlaces,
	type TransferAgentFactory,
} from "./agent-rig.js";
import { hasCode, within } from "./runner.js";
import type { AgentTest } from "./transfer-agent.js";

/** Declares the tests. */
export function lifeTests(
	test: AgentTest,
	factory: TransferAgentFactory,
): void {
	test("has a name of its own and says what it is", async (rig) => {
		const [a, b] = [await rig.agent(), await rig.agent()];
		assert.ok(a.name.length > 0);
		assert.notEqual(a.name, b.name);
		const { info } = a.agent;
		assert.ok(info.kind.length > 0);
		assert.ok(info.transports.length > 0);
		assert.equal(typeof info.rdma, "boolean");
		for (const value of Object.values(info.details))
			assert.equal(typeof value, "string");
	});

	test("takes one listener at a time", async (rig) => {
		const { writer, reader, from, remote } = await rig.pair();
		assert.throws(
			() => writer.agent.attach(() => {}),
			hasCode("ERR_KVCR_ALREADY_STARTED"),
		);
		writer.agent.detach();
		writer.agent.detach();
		const silent = writer.wakes;
		writer.agent.write({
			remote,
			pairs: samePlaces(from, [0]),
			notification: payload(1),
		});
		await reader.until(
			"the notification",
			() => reader.notifications.length === 1,
		);
		await rig.quiet();
		assert.equal(writer.wakes, silent, "it woke a listener that was removed");
		let woken = 0;
		writer.agent.attach(() => {
			woken += 1;
			writer.take();
		});
		await writer.done(
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(2),
			}),
		);
		assert.ok(woken > 0);
		assert.equal(writer.completions.length, 2);
	});

	test("wakes for incoming traffic while it is expected", async (rig) => {
		const writer = await rig.agent();
		const reader = await rig.silentAgent();
		const [from, to] = [await writer.region(1, 64), await reader.region(1, 64)];
		const remote = writer.load(reader, [to]);
		for (let i = 0; i < 3; i += 1) {
			const expectation = reader.agent.expectTraffic();
			const second = reader.agent.expectTraffic();
			second.end();
			second.end();
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(i),
			});
			await reader.until(
				"the notification",
				() => reader.notifications.length === i + 1,
			);
			expectation.end();
			expectation.end();
		}
	});

	test("keeps what arrived while nothing was expected", async (rig) => {
		const writer = await rig.agent();
		const reader = await rig.silentAgent();
		const [from, to] = [await writer.region(1, 64), await reader.region(1, 64)];
		await writer.done(
			writer.agent.write({
				remote: writer.load(reader, [to]),
				pairs: samePlaces(from, [0]),
				notification: payload(1),
			}),
		);
		const expectation = reader.agent.expectTraffic();
		await reader.until(
			"the notification",
			() => reader.notifications.length === 1,
		);
		expectation.end();
	});

	test("works on through 50 restarts of a peer of the same name", async (rig) => {
		const writer = await rig.agent();
		const from = await writer.region(1, 1_000);
		let reader = await rig.agent();
		for (let restart = 1; restart <= 50; restart += 1) {
			await reader.agent.close();
			reader = await rig.agent(reader.name);
			const to = await reader.region(1, 1_000);
			const remote = writer.load(reader, [to]);
			assert.equal(remote.name, reader.name);
			paint(from, 0, restart);
			await writer.done(
				writer.agent.write({
					remote,
					pairs: samePlaces(from, [0]),
					notification: payload(restart),
				}),
			);
			assertPainted(to, 0, restart);
		}
	});

	test("serves later readers after one left without a word", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		await writer.done(
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(1),
			}),
		);
		const stays = await rig.agent();
		const place = await stays.region(4, 4_096);
		await reader.agent.close();
		assert.equal(to.released, true);
		if (factory.refusesReleasedTargets) {
			const lost = writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(2),
			});
			const { outcome, reason } = await writer.completion(lost);
			assert.equal(outcome, "failed");
			assert.equal(typeof reason, "string");
		}
		paint(from, 1, 5);
		await writer.done(
			writer.agent.write({
				remote: writer.load(stays, [place]),
				pairs: samePlaces(from, [1]),
				notification: payload(3),
			}),
		);
		assertPainted(place, 1, 5);
		writer.agent.removeRemote(remote);
	});

	if (factory.refusesReleasedTargets)
		test("ends the writes in flight to a reader that closes, each once", async (rig) => {
			const { writer, reader, from, remote } = await rig.pair(16, 1 << 20);
			const all = Array.from({ length: 16 }, (_, i) => i);
			const transfers = all.map((i) =>
				writer.agent.write({
					remote,
					pairs: samePlaces(from, all),
					notification: payload(i),
				}),
			);
			await within("close of the reader", rig.patience, reader.agent.close());
			for (const transfer of transfers) await writer.completion(transfer);
			await rig.quiet();
			assert.equal(writer.completions.length, transfers.length);
			from.release();
		});

	test("closes for good: regions end, calls are refused, nobody is woken", async (rig) => {
		const { writer, from, remote } = await rig.pair();
		const view = from.element(0);
		const request = {
			remote,
			pairs: samePlaces(from, [0]),
			notification: payload(1),
		};
		await writer.agent.close();
		assert.equal(from.released, true);
		assert.equal(view.length, 0);
		assert.throws(() => from.element(0), hasCode("ERR_KVCR_REGION_RELEASED"));
		from.release();
		assert.throws(
			() => writer.agent.write(request),
			hasCode("ERR_KVCR_CLOSED"),
		);
		await assert.rejects(
			writer.agent.createRegion({
				label: "x",
				elementBytes: 1,
				elementCount: 1,
			}),
			hasCode("ERR_KVCR_CLOSED"),
		);
		const wakes = writer.wakes;
		await rig.quiet();
		assert.equal(writer.wakes, wakes);
		await writer.agent.close();
	});

	test("closes with writes in flight, in bounded time, each ended at most once", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair(16, 1 << 20);
		const all = Array.from({ length: 16 }, (_, i) => i);
		for (let i = 0; i < 8; i += 1)
			writer.agent.write({
				remote,
				pairs: samePlaces(from, all),
				notification: payload(i),
			});
		await within("close", rig.patience, writer.agent.close());
		assert.equal(from.released, true);
		await rig.quiet();
		for (const i of all) to.element(i).fill(9);
		await rig.quiet();
		for (const i of all)
			assert.ok(
				to.element(i).every((byte) => byte === 9),
				"bytes moved after close",
			);
		assert.ok(reader.notifications.length <= 8);
		assert.ok(writer.completions.length <= 8);
	});

	test("closes twice at once", async (rig) => {
		const { writer } = await rig.pair();
		await within(
			"two closes",
			rig.patience,
			Promise.all([writer.agent.close(), writer.agent.close()]),
		);
	});
}
