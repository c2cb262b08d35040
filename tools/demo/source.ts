/** The source process: deposits the blocks, answers peers until it is told to stop, then checks that nothing is left. */
import { consoleLogger, Kvcr, KvcrDriver } from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { type AgentKind, createAgent } from "./agent.js";
import { POOLS, pieceBytes, SOURCE_BLOCKS, slotBytes } from "./blocks.js";
import { DemoKeyAdapter } from "./key-adapter.js";

const adapter = new DemoKeyAdapter();
const kvcr = await Kvcr.create({
	agent: await createAgent(process.argv[2] as AgentKind),
	channel: new ZmqControlChannel({ port: 0 }),
	adapter,
	inventorySink: adapter.follow,
	pools: POOLS,
	logger: consoleLogger,
});
const driver = new KvcrDriver(kvcr);
const { entries } = await driver.deposit(
	SOURCE_BLOCKS.map(({ key, layout }) => ({
		key,
		pieces: layout.map((label, piece) => ({
			label,
			bytes: pieceBytes(key, piece, slotBytes(label)),
		})),
	})),
);
const failed = entries.filter((entry) => entry.status !== "SUCCESS");
if (failed.length > 0)
	throw new Error(`source: ${failed.length} blocks could not be deposited`);
process.send?.({ endpoint: kvcr.endpoint, blocks: entries.length });

process.once("message", async () => {
	const { cache, transfers } = kvcr.stats();
	const leaked = (cache?.claims ?? 0) + transfers.writes;
	if (leaked > 0) console.error(`source: ${leaked} claims or writes are left`);
	driver.stop();
	await kvcr.close();
	process.exitCode = leaked > 0 ? 1 : 0;
	process.disconnect();
});
