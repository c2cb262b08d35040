import { afterEach, describe, expect, it } from "vitest";
import { type Incarnation, Kvcr, silentLogger } from "../src/index.js";
import { encodeControlMessage } from "../src/protocol/index.js";
import {
	ManualClock,
	MemoryFabric,
	ScriptedChannel,
} from "../src/testing/index.js";
import { ListAdapter } from "./support/cluster.js";

let kvcr: Kvcr | undefined;
afterEach(() => kvcr?.close());

/** A channel that can be slowed down, and says when that happens. */
class SlowableChannel extends ScriptedChannel {
	slowed = 0;
	slowDown(): void {
		this.slowed += 1;
	}
}

async function start(channel: ScriptedChannel) {
	kvcr = await Kvcr.create({
		agent: new MemoryFabric().agent("source"),
		channel,
		adapter: new ListAdapter(),
		pools: [{ name: "kv", slotBytes: 64, slotCount: 4 }],
		clock: new ManualClock(),
		logger: silentLogger,
	});
	return kvcr;
}

/** Larger than anything a stranger may send. */
const TOO_LARGE = Buffer.concat([
	encodeControlMessage({
		type: "write_probe",
		header: {
			targetAgent: "stranger",
			senderIncarnation: "3".repeat(32) as Incarnation,
			senderControlEndpoint: "memory://stranger",
		},
		opHandle: 1n as never,
	}),
	Buffer.alloc(512 << 10),
]);

describe("a channel that can be slowed down", () => {
	it("is told of each message that was dropped unread, within the call that brought it", async () => {
		const channel = new SlowableChannel();
		const { stats } = await start(channel).then((made) => ({
			stats: () => made.stats(),
		}));
		channel.inject(Uint8Array.of(0x80));
		expect(channel.slowed).toBe(0);
		channel.inject(TOO_LARGE);
		expect(channel.slowed).toBe(1);
		channel.inject(TOO_LARGE);
		expect(channel.slowed).toBe(2);
		expect(stats().counters).toMatchObject({
			'kvcr_control_dropped_total{reason="stranger_too_large"}': 2,
		});
	});

	it("need not be one", async () => {
		const channel = new ScriptedChannel();
		const made = await start(channel);
		channel.inject(TOO_LARGE);
		expect(made.stats().counters).toMatchObject({
			'kvcr_control_dropped_total{reason="stranger_too_large"}': 1,
		});
	});
});
