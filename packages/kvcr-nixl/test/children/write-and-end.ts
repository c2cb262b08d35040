/** Writes to the peer it is told of and ends at once: `write-and-end.ts exit|throw|close`. */
import { once } from "node:events";
import { createInterface } from "node:readline";
import { NixlTransferAgent } from "../../src/index.js";
import { libraryPath } from "../helpers.js";
import { type Introduction, load } from "../introduction.js";

const agent = await NixlTransferAgent.create({
	libraryPath,
	closeTimeoutMs: 30_000,
});
const region = await agent.createRegion({
	label: "mine",
	elementBytes: 1 << 20,
	elementCount: 16,
});
for (let i = 0; i < 16; i += 1) region.element(i).fill(9);
const input = createInterface(process.stdin);
const [line] = (await once(input, "line")) as [string];
const peer = load(agent, JSON.parse(line) as Introduction);
const write = (elements: number, text: string) =>
	agent.write({
		remote: peer,
		pairs: Array.from({ length: elements }, (_, element) => ({
			region,
			element,
			remoteRegion: 0,
			remoteElement: element,
		})),
		notification: Buffer.from(text),
	});

if (process.argv[2] === "close") {
	for (let i = 0; i < 50; i += 1) write(16, "stuck");
	void agent.close();
	console.log("closing");
	setTimeout(() => process.exit(42), 50);
} else {
	agent.connect(peer);
	await new Promise((resolve) => setTimeout(resolve, 300));
	write(1, "small");
	write(16, "large");
	agent.notify(peer, Buffer.from("bye"));
	if (process.argv[2] === "throw") throw new Error("on purpose");
	process.exit(42);
}
