/** A worker thread with an agent: `worker.mjs close | leave | terminate`. Says "flying" when writes are in flight. */
import { parentPort } from "node:worker_threads";
import { register } from "tsx/esm/api";

register();
const { createAgent } = await import("../helpers.ts");
const how = process.argv[2];
const agent = await createAgent();
const region = await agent.createRegion({
	label: "r",
	elementBytes: 64,
	elementCount: 2,
});
const remote = agent.addRemote(agent.localMetadata(), [region.descriptor]);
const write = () =>
	agent.write({
		remote,
		pairs: [{ region, element: 0, remoteRegion: 0, remoteElement: 1 }],
		notification: Buffer.from("x"),
	});
if (how === "terminate") {
	// Each completion asks for more, until the thread is ended from outside.
	agent.attach(() => {
		agent.takeNotifications();
		for (const _ of agent.takeCompletions()) write();
	});
	agent.expectTraffic();
}
for (let i = 0; i < 1000; i += 1) write();
parentPort?.postMessage("flying");
if (how === "close") await agent.close();
