/** A process that offers one region of a portable agent and tells its parent about it. */
import { PortableTransferAgent } from "../../src/portable/index.js";

const [elementBytes, elementCount] = process.argv.slice(2).map(Number) as [
	number,
	number,
];
const agent = await PortableTransferAgent.create({ name: "child" });
const region = await agent.createRegion({
	label: "child",
	elementBytes,
	elementCount,
});
agent.attach(() => {
	for (const { payload } of agent.takeNotifications())
		process.send?.({ notified: [...payload], first: region.element(0)[0] });
});
process.on("message", (message) => {
	if (message === "close") {
		process.disconnect();
		void agent.close();
	}
});
process.send?.({
	metadata: Buffer.from(agent.localMetadata()).toString("base64"),
	descriptor: { ...region.descriptor, addr: `${region.descriptor.addr}` },
});
