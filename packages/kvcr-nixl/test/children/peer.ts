/**
 * A peer in a process of its own. Prints its introduction (metadata, a region of 16 MiB and a small one) as one line of
 * JSON; answers each notification "ping" once it was told, by a line on stdin, who asks. The line "release" ends its large
 * region, "report" prints what was heard and written by others. Ends when stdin does.
 */
import { createInterface } from "node:readline";
import { createAgent } from "../helpers.js";
import { type Introduction, introduce, load } from "../introduction.js";

const agent = await createAgent();
const region = await agent.createRegion({
	label: "peer",
	elementBytes: 1 << 20,
	elementCount: 16,
});
const small = await agent.createRegion({
	label: "small",
	elementBytes: 64,
	elementCount: 2,
});
agent.expectTraffic();
const heard: string[] = [];
const input = createInterface(process.stdin);
input.on("line", (line) => {
	if (line === "release") {
		region.release();
		console.log("released");
		return;
	}
	if (line === "report") {
		for (const { payload } of agent.takeNotifications())
			heard.push(Buffer.from(payload).toString());
		const full = Array.from({ length: 16 }, (_, i) => region.element(i)).filter(
			(bytes) => bytes.every((byte) => byte === 9),
		);
		console.log(`heard ${heard.sort()} of ${full.length} elements`);
		return;
	}
	const remote = load(agent, JSON.parse(line) as Introduction);
	agent.attach(() => {
		agent.takeCompletions();
		for (const { payload } of agent.takeNotifications()) {
			if (Buffer.from(payload).toString() !== "ping") continue;
			const sum = [0, 15].map((i) => region.element(i)[0]).join();
			agent.notify(remote, Buffer.from(`pong ${sum}`));
		}
	});
});
input.on("close", () => void agent.close());
console.log(JSON.stringify(introduce(agent, [region, small])));
