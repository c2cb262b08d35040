import { randomBytes } from "node:crypto";
import { encode } from "@msgpack/msgpack";
import type { HintOutcomeReport } from "kvcr-core";
import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import { byHash, expectDrained } from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overRigs } from "./harness/rigs.js";
import { type Stranger, strangerTo } from "./harness/stranger.js";
import type { Worker } from "./harness/worker-handle.js";

/** Most messages of one flood, and the longest it lasts in milliseconds. */
const MOST = 200_000;
const LONGEST_MS = 4_000;
/** Memory that may be taken for good: full queues and JIT code. */
const GROWTH_BYTES = 64 << 20;
const HASHES = Array.from({ length: 40 }, (_, at) => BigInt(at + 1));

const RIGS = [
	["portable", "zmq"],
	["portable", "nats"],
] as const;

overRigs("a flood of control messages", RIGS, (rig) => {
	it("at full speed: an honest peer's hints are followed meanwhile, and afterwards nothing is left", async () => {
		const source = await rig.worker("source");
		const target = await rig.worker("target", { operationTimeoutMs: 5_000 });
		await source.call(
			"deposit",
			HASHES.map((hash) => ({ key: key(hash) })),
		);
		const before = await source.call("usage");
		const flood = await Flood.start(source);
		let outcomes: readonly HintOutcomeReport[] = [];
		for (const [at, hash] of HASHES.entries()) {
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [hash] }),
			);
			outcomes = await target.call("outcomes", at + 1);
		}
		const sent = await flood.end();

		expect([...byHash(outcomes).values()]).toEqual(HASHES.map(() => "placed"));
		// A flood that does not reach the limits would show nothing.
		const { counters, peers } = await source.call("stats");
		expect(sent).toBeGreaterThan(1_000);
		expect(
			Object.entries(counters)
				.filter(([name]) => name.startsWith("kvcr_control_dropped"))
				.reduce((sum, [, count]) => sum + count, 0),
		).toBeGreaterThan(0);
		expect(peers.targets).toBe(1);
		await expectDrained(source);
		await expectDrained(target);
		const after = await source.call("usage");
		expect(after.heapUsed + after.external).toBeLessThan(
			before.heapUsed + before.external + GROWTH_BYTES,
		);
		expect(await target.close()).toBe(0);
		expect(await source.close()).toBe(0);
	}, 60_000);
});

/** One hostile peer that sends as fast as its channel takes it. */
class Flood {
	readonly #stranger: Stranger;
	readonly #messages: readonly Uint8Array[];
	readonly #done: Promise<void>;
	#sent = 0;

	private constructor(stranger: Stranger, endpoint: string) {
		this.#stranger = stranger;
		this.#messages = messages(endpoint);
		this.#done = this.#send();
	}

	static async start(target: Worker): Promise<Flood> {
		return new Flood(await strangerTo(target), target.endpoint);
	}

	/** Stops, and says how many went out. */
	async end(): Promise<number> {
		await this.#stranger.close();
		await this.#done;
		return this.#sent;
	}

	async #send(): Promise<void> {
		const end = performance.now() + LONGEST_MS;
		try {
			while (this.#sent < MOST && performance.now() < end) {
				const message = this.#messages[this.#sent % this.#messages.length];
				await this.#stranger.send(message as Uint8Array);
				this.#sent += 1;
				if (this.#sent % 256 === 0)
					await new Promise((resolve) => setImmediate(resolve));
			}
		} catch {
			// Closed: the flood is over.
		}
	}
}

/** Requests that cost something to answer, under ever new names, writes for nobody, and noise. */
function messages(endpoint: string): Uint8Array[] {
	return Array.from({ length: 64 }, (_, at) => {
		const sender = {
			target_agent: `mallory-${at}`,
			sender_incarnation: randomBytes(16).toString("hex"),
			sender_control_endpoint: "tcp://127.0.0.1:1",
			source_control_endpoint: endpoint,
		};
		switch (at % 4) {
			case 0:
				return pack({
					type: "resolve_hashes",
					resolution_id: BigInt(at),
					hashes: Array.from(
						{ length: 1024 },
						(_, n) => HASHES[n % HASHES.length],
					),
					remaining_timeout_ms: 1000,
					...sender,
				});
			case 1:
				return pack({
					type: "start_write",
					op_handle: BigInt(at),
					remaining_timeout_ms: 1000,
					source_incarnation: null,
					keys: [key(1n)],
					dst_descriptors: [
						[
							{
								end_point_name: sender.target_agent,
								element_index: 0,
								label: "kv",
								framework: false,
							},
						],
					],
					allow_layout_subset: false,
					...sender,
				});
			case 2:
				return pack({
					type: "target_metadata",
					target_agent_metadata: randomBytes(300 << 10),
					target_regions: [{}, {}],
					...sender,
				});
			default:
				return randomBytes(64 + at);
		}
	});
}

function pack(message: Record<string, unknown>): Uint8Array {
	return encode(message, { useBigInt64: true });
}
