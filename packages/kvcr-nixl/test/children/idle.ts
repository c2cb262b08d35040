/** Prints the share of one core, in percent, that an open agent uses while it has nothing to do: `idle.ts MS`. */
import { setTimeout as sleep } from "node:timers/promises";
import { createAgent } from "../helpers.js";

const ms = Number(process.argv[2]);
const agent = await createAgent();
const region = await agent.createRegion({
	label: "r",
	elementBytes: 64,
	elementCount: 2,
});
const remote = agent.addRemote(agent.localMetadata(), [region.descriptor]);
agent.write({
	remote,
	pairs: [{ region, element: 0, remoteRegion: 0, remoteElement: 1 }],
	notification: Buffer.from("x"),
});
await sleep(1_500);
const before = process.cpuUsage();
await sleep(ms);
const used = process.cpuUsage(before);
console.log(((used.user + used.system) / 10 / ms).toFixed(2));
await agent.close();
