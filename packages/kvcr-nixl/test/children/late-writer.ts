/** Writes to the peer it is told of, and once more after the line "again". Exits with 0 whatever became of that. */
import { createInterface } from "node:readline";
import { createAgent } from "../helpers.js";
import { type Introduction, load } from "../introduction.js";

const agent = await createAgent();
const region = await agent.createRegion({
	label: "mine",
	elementBytes: 1 << 20,
	elementCount: 1,
});
region.element(0).fill(5);
agent.expectTraffic();
const lines = createInterface(process.stdin)[Symbol.asyncIterator]();
const { value } = await lines.next();
const peer = load(agent, JSON.parse(value) as Introduction);

async function write(): Promise<string> {
	let ended: (outcome: string) => void = () => {};
	const outcome = new Promise<string>((resolve) => {
		ended = resolve;
	});
	agent.attach(() => {
		for (const completion of agent.takeCompletions()) ended(completion.outcome);
	});
	agent.write({
		remote: peer,
		pairs: [{ region, element: 0, remoteRegion: 0, remoteElement: 0 }],
		notification: Buffer.from("x"),
	});
	setTimeout(() => ended("nothing"), 5_000).unref();
	return outcome.finally(() => agent.detach());
}

console.log((await write()) === "done" ? "written" : "not written");
await lines.next();
console.log(`late ${await write()}`);
// Time for what was sent to arrive.
setTimeout(() => process.exit(0), 200);
