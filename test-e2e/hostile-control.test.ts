import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "@msgpack/msgpack";
import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import { expectDrained, expectRightBytes } from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overRigs } from "./harness/rigs.js";
import { strangerTo } from "./harness/stranger.js";
import type { Worker } from "./harness/worker-handle.js";

/** How long random bytes are sent to the port, in milliseconds. */
const NOISE_MS = 10_000;
const MESSAGES = 10_000;
/** Messages sent at once: fewer than may wait. */
const BATCH = 500;
/** Memory that may be taken for good: queues and JIT code, not messages. */
const GROWTH_BYTES = 48 << 20;

const RIGS = [
	["portable", "zmq"],
	["portable", "nats"],
] as const;

overRigs("a hostile network", RIGS, (rig) => {
	// Over NATS nobody has a port of a worker to send to.
	const noisy = rig.channel === "zmq";
	const first = noisy
		? "random bytes on the control port for ten seconds, then "
		: "";
	it(`${first}10,000 messages that look valid`, async () => {
		const source = await rig.worker("source");
		const target = await rig.worker("target");
		await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
		await target.call("deposit", [{ key: key(3n) }]);
		const before = await target.call("usage");

		if (noisy) await noise(target.endpoint);
		await lookAlikes(target, source.endpoint);

		// It lives, works, holds nothing, and what it had is untouched.
		await target.call(
			"submitHint",
			hint({ source: source.endpoint, hashes: [1n, 2n] }),
		);
		const outcomes = await target.call("outcomes", 2);
		expect(outcomes.map(({ outcome }) => outcome)).toEqual([
			"placed",
			"placed",
		]);
		expectRightBytes(
			await target.call("deliver", [{ key: key(1n) }, { key: key(3n) }]),
		);
		await expectDrained(target);
		await expectDrained(source);
		const stats = await target.call("stats");
		expect(stats.cache?.ready).toBe(3);
		expect(
			Object.entries(stats.counters).some(
				([name, count]) => name.startsWith("kvcr_control_dropped") && count > 0,
			),
		).toBe(true);
		const after = await target.call("usage");
		expect(after.heapUsed + after.external).toBeLessThan(
			before.heapUsed + before.external + GROWTH_BYTES,
		);
		expect(await target.close()).toBe(0);
		expect(await source.close()).toBe(0);
	});
});

/** One connection after the other, each with random bytes until the other side hangs up. */
async function noise(endpoint: string): Promise<void> {
	const port = Number(endpoint.split(":").at(-1));
	const end = performance.now() + NOISE_MS;
	while (performance.now() < end) {
		const socket = connect({ host: "127.0.0.1", port });
		socket.on("error", () => {});
		await once(socket, "connect");
		for (let part = 0; part < 16 && !socket.destroyed; part += 1) {
			socket.write(randomBytes(4096));
			await sleep(1);
		}
		socket.destroy();
	}
}

/**
 * Messages with the right fields and wrong contents, sent over a real channel; no faster than they are read, so that each of
 * them is looked at, and none is dropped for being part of a flood.
 */
async function lookAlikes(target: Worker, known: string): Promise<void> {
	const stranger = await strangerTo(target);
	try {
		const before = await taken(target);
		for (let index = 0; index < MESSAGES; index += 1) {
			const bytes =
				index % 5 === 0 ? randomBytes(200) : lookAlike(index, known);
			await stranger.send(bytes);
			const sent = index + 1;
			if (sent % BATCH > 0) continue;
			await expect
				.poll(() => taken(target), { timeout: 20_000, interval: 10 })
				.toBeGreaterThanOrEqual(before + sent);
		}
		// Noise is counted too: all have been read once the count comes to rest.
		let seen = -1;
		await expect
			.poll(
				async () => {
					const last = seen;
					seen = await taken(target);
					return seen >= MESSAGES && seen === last;
				},
				{ timeout: 20_000, interval: 500 },
			)
			.toBe(true);
	} finally {
		await stranger.close();
	}
}

/** Messages a worker has read so far, of whatever kind. */
async function taken(worker: Worker): Promise<number> {
	const { counters } = await worker.call("stats");
	return Object.entries(counters)
		.filter(([name]) => /^kvcr_control_(received|dropped)_total/.test(name))
		.reduce((sum, [, count]) => sum + count, 0);
}

const TYPES = [
	"target_metadata",
	"target_metadata_ack",
	"start_write",
	"write_refused",
	"write_probe",
	"write_probe_ack",
	"resolve_hashes",
	"hashes_resolved",
];

function lookAlike(index: number, known: string): Uint8Array {
	const pick = <T>(values: readonly T[]): T =>
		values[Math.floor(Math.random() * values.length)] as T;
	const incarnation = randomBytes(16).toString("hex");
	return encode({
		type: TYPES[index % TYPES.length],
		target_agent: pick(["a", "agent", "x".repeat(300)]),
		sender_incarnation: pick([incarnation, "0".repeat(32), 7]),
		sender_control_endpoint: pick([known, "tcp://127.0.0.1:9", "", 3]),
		source_control_endpoint: pick([known, "tcp://127.0.0.1:9"]),
		op_handle: pick([1, -1, index, "x", 2 ** 40]),
		remaining_timeout_ms: pick([1000, -5, 0, Number.NaN, 1e300]),
		source_incarnation: pick([incarnation, null, "zz"]),
		keys: pick([[key(1n)], [], [key(1n), key(1n)], [new Uint8Array(0)]]),
		dst_descriptors: pick([
			[[element("a", 0)]],
			[[element("agent", 2 ** 31)]],
			[[]],
			[],
			"no",
		]),
		allow_layout_subset: pick([true, false, 2]),
		allow_framework: pick([true, false, null]),
		mode: pick(["copy", "move", "steal"]),
		target_agent_metadata: pick([randomBytes(64), null]),
		target_regions: pick([
			[{}, {}],
			[{}, { kv: region() }],
			[{ kv: region() }, 5],
		]),
		terminal: pick([true, false, "yes"]),
		resolution_id: pick([index, -1, 2 ** 50]),
		hashes: pick([[1, 2, 3], [-1], [], "all"]),
		results: pick([
			[["resolved", key(1n), ["kv"], [65_536]]],
			[["not_found"]],
			[],
		]),
	});
}

function element(owner: string, index: number): object {
	return {
		end_point_name: owner,
		element_index: index,
		label: "kv",
		framework: false,
	};
}

function region(): object {
	return {
		mem_type: "DRAM",
		device_Id: 0,
		addr: 0x7f00_0000_0000,
		stride: 0,
		count: 4,
		size: 65_536,
		label: "kv",
	};
}
