/** Tests of how a transfer agent loads, replaces and forgets its peers. */
import assert from "node:assert/strict";
import {
	assertBlank,
	assertPainted,
	elsewhere,
	paint,
	payload,
	samePlaces,
	type TransferAgentFactory,
} from "./agent-rig.js";
import { hasCode } from "./runner.js";
import type { AgentTest } from "./transfer-agent.js";

/** Declares the tests. */
export function remoteTests(
	test: AgentTest,
	factory: TransferAgentFactory,
): void {
	test("names a remote as the remote names itself", async (rig) => {
		const { reader, remote } = await rig.pair();
		assert.equal(remote.name, reader.name);
	});

	test("refuses a handle that was replaced, and writes by the new one", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		paint(from, 0, 3);
		const fresh = writer.load(reader, [to]);
		const request = { pairs: samePlaces(from, [0]), notification: payload(1) };
		assert.throws(
			() => writer.agent.write({ remote, ...request }),
			hasCode("ERR_KVCR_STALE_REMOTE"),
		);
		writer.agent.removeRemote(remote);
		await writer.done(writer.agent.write({ remote: fresh, ...request }));
		assertPainted(to, 0, 3);
	});

	test("refuses a handle that was removed, twice without harm", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		writer.agent.removeRemote(remote);
		writer.agent.removeRemote(remote);
		assert.throws(
			() =>
				writer.agent.write({
					remote,
					pairs: samePlaces(from, [0]),
					notification: payload(1),
				}),
			hasCode("ERR_KVCR_STALE_REMOTE"),
		);
		await rig.quiet();
		assertBlank(to, 0);
		assert.equal(reader.notifications.length, 0);
		paint(from, 0, 4);
		await writer.done(
			writer.agent.write({
				remote: writer.load(reader, [to]),
				pairs: samePlaces(from, [0]),
				notification: payload(2),
			}),
		);
		assertPainted(to, 0, 4);
	});

	test("survives loading the same peer many times in a row", async (rig) => {
		const { writer, reader, from, to } = await rig.pair();
		const handles = Array.from({ length: 20 }, () => writer.load(reader, [to]));
		const request = { pairs: samePlaces(from, [1]), notification: payload(1) };
		for (const stale of handles.slice(0, -1))
			assert.throws(
				() => writer.agent.write({ remote: stale, ...request }),
				hasCode("ERR_KVCR_STALE_REMOTE"),
			);
		paint(from, 1, 6);
		const remote = handles.at(-1) as (typeof handles)[number];
		await writer.done(writer.agent.write({ remote, ...request }));
		assertPainted(to, 1, 6);
	});

	for (const way of ["removes", "replaces"] as const)
		test(`never ${way} a remote under a write in flight`, async (rig) => {
			const { writer, reader, from, to, remote } = await rig.pair(8, 1 << 20);
			const all = [0, 1, 2, 3, 4, 5, 6, 7];
			for (const i of all) paint(from, i, i);
			const transfer = writer.agent.write({
				remote,
				pairs: samePlaces(from, all),
				notification: payload(1),
			});
			try {
				if (way === "removes") writer.agent.removeRemote(remote);
				else writer.load(reader, [to]);
				// Only right when the write was already over: then its completion waits to be taken.
				writer.take();
				assert.ok(
					writer.completions.some((c) => c.transfer === transfer),
					"a remote went away under a write in flight",
				);
			} catch (error) {
				hasCode("ERR_KVCR_REMOTE_BUSY")(error);
			}
			await writer.done(transfer);
			for (const i of all) assertPainted(to, i, i);
			if (way === "removes") writer.agent.removeRemote(remote);
			else writer.load(reader, [to]);
		});

	test("covers regions that were made after the first metadata", async (rig) => {
		const { writer, reader, from, remote } = await rig.pair();
		const later = await reader.region(2, 4_096, "later");
		const fresh = writer.load(reader, [later]);
		paint(from, 0, 7);
		await writer.done(
			writer.agent.write({
				remote: fresh,
				pairs: samePlaces(from, [0]),
				notification: payload(1),
			}),
		);
		assertPainted(later, 0, 7);
		assert.equal(remote.name, fresh.name);
	});

	test("refuses metadata that is not metadata, and keeps working", async (rig) => {
		const { writer, reader, from, to, remote } = await rig.pair();
		const whole = reader.agent.localMetadata();
		const blobs: [string, unknown][] = [
			["nothing", new Uint8Array(0)],
			["one byte", Uint8Array.of(1)],
			["zeros", new Uint8Array(1_000)],
			["noise", noise(300)],
			["much noise", noise(100_000)],
			["a part", whole.slice(0, 3)],
			["a half", whole.slice(0, whole.length >> 1)],
			["text", "metadata"],
			["null", null],
		];
		for (const [what, blob] of blobs)
			assert.throws(
				() => writer.agent.addRemote(blob as Uint8Array, [to.descriptor]),
				hasCode("ERR_KVCR_INVALID_METADATA"),
				what,
			);
		paint(from, 2, 2);
		await writer.done(
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [2]),
				notification: payload(1),
			}),
		);
		assertPainted(to, 2, 2);
	});

	test("never writes by a descriptor that the metadata does not cover", async (rig) => {
		const { writer, reader, from, to } = await rig.pair();
		from.element(0).fill(1);
		try {
			const remote = writer.agent.addRemote(reader.agent.localMetadata(), [
				elsewhere(to.descriptor),
			]);
			const transfer = writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(1),
			});
			assert.notEqual((await writer.completion(transfer)).outcome, "done");
		} catch (error) {
			const { code } = error as { code?: string };
			assert.ok(
				code === "ERR_KVCR_INVALID_METADATA" ||
					code === "ERR_KVCR_TRANSFER_AGENT",
				String(error),
			);
		}
		await rig.quiet();
		assertBlank(to, 0);
		assert.equal(reader.notifications.length, 0);
	});

	test("connects ahead of need", async (rig) => {
		const { writer, from, to, remote } = await rig.pair();
		writer.agent.connect(remote);
		writer.agent.connect(remote);
		paint(from, 3, 1);
		await writer.done(
			writer.agent.write({
				remote,
				pairs: samePlaces(from, [3]),
				notification: payload(1),
			}),
		);
		assertPainted(to, 3, 1);
	});

	if (factory.refusesReleasedTargets)
		test("fails a write to a region that its owner released", async (rig) => {
			const { writer, reader, from, to, remote } = await rig.pair();
			const kept = await reader.region(4, 4_096);
			to.release();
			const transfer = writer.agent.write({
				remote,
				pairs: samePlaces(from, [0]),
				notification: payload(1),
			});
			const { outcome, reason } = await writer.completion(transfer);
			assert.equal(outcome, "failed");
			assert.equal(typeof reason, "string");
			await rig.quiet();
			assert.equal(reader.notifications.length, 0);
			await writer.done(
				writer.agent.write({
					remote: writer.load(reader, [kept]),
					pairs: samePlaces(from, [0]),
					notification: payload(2),
				}),
			);
		});
}

/** Bytes without meaning, the same in every run. */
function noise(size: number): Uint8Array {
	let state = 0x2545f491;
	return Uint8Array.from({ length: size }, () => {
		state ^= state << 13;
		state ^= state >>> 17;
		state ^= state << 5;
		return state & 0xff;
	});
}
