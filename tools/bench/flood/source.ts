/** The source of the flood bench: holds the blocks and answers; told to stop, it says what it counted and ends. */
import { Kvcr, KvcrDriver, silentLogger } from "kvcr-core";
import { PortableTransferAgent } from "kvcr-core/portable";
import {
	adapter,
	BLOCK_BYTES,
	hashOf,
	keyOf,
	makeChannel,
	type Place,
	SOURCE_BLOCKS,
} from "./shared.js";

const place = JSON.parse(process.argv[2] ?? "{}") as Place;
const channel = makeChannel(place, "source");
const kvcr = await Kvcr.create({
	agent: await PortableTransferAgent.create(),
	channel,
	adapter,
	pools: [{ name: "kv", slotBytes: BLOCK_BYTES, slotCount: SOURCE_BLOCKS }],
	logger: silentLogger,
});
const driver = new KvcrDriver(kvcr);
const bytes = new Uint8Array(BLOCK_BYTES).fill(0xc3);
await driver.deposit(
	Array.from({ length: SOURCE_BLOCKS }, (_, index) => ({
		key: keyOf(hashOf(index)),
		pieces: [{ label: "kv", bytes }],
	})),
);
let stopping = false;
// The bench is gone without a word.
process.on("disconnect", () => stopping || process.exit(1));
process.on("message", async (message: "stop" | "usage" | "calm") => {
	if (message === "calm") {
		await calm();
		process.send?.("calm");
		return;
	}
	if (message === "usage") {
		process.send?.({
			rss: process.memoryUsage().rss,
			received: channel.stats().received,
			peers: kvcr.stats().peers.targets,
			counters: kvcr.stats().counters,
		});
		return;
	}
	stopping = true;
	driver.stop();
	await kvcr.close();
	process.disconnect();
});
process.send?.({ endpoint: kvcr.endpoint });

/** Resolves when this process has nothing to do any more: what waited of a flood is done. */
async function calm(): Promise<void> {
	for (let idle = 0; idle < 2; ) {
		const before = process.cpuUsage();
		await new Promise((resolve) => setTimeout(resolve, 50));
		const { user, system } = process.cpuUsage(before);
		// Microseconds: a twentieth of the time.
		idle = user + system < 2_500 ? idle + 1 : 0;
	}
}
