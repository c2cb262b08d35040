/** The answering side of the benchmark: a process of its own that answers each notification with one. */
import { NixlTransferAgent } from "../src/index.js";
import { BLOCK, BULK_BLOCK, BULK_BLOCKS, type Introduction } from "./shared.js";

const agent = await NixlTransferAgent.create();
const small = await agent.createRegion({
	label: "small",
	elementBytes: BLOCK,
	elementCount: 1,
});
const bulk = await agent.createRegion({
	label: "bulk",
	elementBytes: BULK_BLOCK,
	elementCount: BULK_BLOCKS,
});
for (let i = 0; i < BULK_BLOCKS; i += 1) bulk.element(i).fill(1);
agent.expectTraffic();
const pong = Buffer.from("pong");

process.on("message", (message: Introduction) => {
	const peer = agent.addRemote(
		Buffer.from(message.metadata, "base64"),
		message.regions.map((region) => ({ ...region, addr: BigInt(region.addr) })),
	);
	agent.attach(() => {
		agent.takeCompletions();
		for (const _ of agent.takeNotifications()) agent.notify(peer, pong);
	});
});
process.on("disconnect", () => void agent.close());
process.send?.({
	metadata: Buffer.from(agent.localMetadata()).toString("base64"),
	regions: [small, bulk].map(({ descriptor }) => ({
		...descriptor,
		addr: String(descriptor.addr),
	})),
} satisfies Introduction);
