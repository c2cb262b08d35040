/** The source of the integrity bench, in a process of its own: `peer.ts off|verify`. */
import { setTimeout as sleep } from "node:timers/promises";
import { Kvcr, KvcrDriver } from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import {
	adapter,
	createAgent,
	hashOf,
	keyOf,
	pools,
	SOURCE_BLOCKS,
} from "../pull/shared.js";

/** Time for checksums to be computed behind the deposits, in milliseconds. The other side fails when one is missing. */
const SETTLE_MS = 2_000;

const kvcr = await Kvcr.create({
	agent: await createAgent("portable"),
	channel: new ZmqControlChannel({ port: 0 }),
	adapter,
	pools: pools({ small: 1, large: SOURCE_BLOCKS.large }),
	operationTimeoutMs: 10_000,
	abandonTimeoutMs: 20_000,
	integrity: process.argv[2] as "off" | "verify",
});
const driver = new KvcrDriver(kvcr);
const bytes = new Uint8Array(1 << 20).fill(0xc3);
const before = process.cpuUsage();
await driver.deposit(
	Array.from({ length: SOURCE_BLOCKS.large }, (_, index) => ({
		key: keyOf(hashOf("large", index)),
		pieces: [{ label: "large", bytes }],
	})),
);
await sleep(SETTLE_MS);
const { user, system } = process.cpuUsage(before);

process.on("message", async () => {
	driver.stop();
	await kvcr.close();
	process.disconnect();
});
process.send?.({ endpoint: kvcr.endpoint, cpuMs: (user + system) / 1000 });
