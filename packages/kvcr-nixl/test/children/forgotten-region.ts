/** Writes from and to regions that nothing refers to any more, under constant garbage collection. */
import { createAgent } from "../helpers.js";

const collect = globalThis.gc as () => void;
const agent = await createAgent();
let done = 0;
let posted = 0;
agent.attach(() => {
	agent.takeNotifications();
	for (const { outcome } of agent.takeCompletions())
		if (outcome === "done") done += 1;
});
agent.expectTraffic();
for (let round = 0; round < 20; round += 1) {
	await post();
	collect();
	await new Promise((resolve) => setImmediate(resolve));
	collect();
}
while (done < 200) await new Promise((resolve) => setTimeout(resolve, 5));
console.log(`done ${done}`);
await agent.close();
collect();

async function post(): Promise<void> {
	const region = await agent.createRegion({
		label: "forgotten",
		elementBytes: 128 << 10,
		elementCount: 8,
	});
	region.element(0).fill(1);
	// A peer is not replaced while writes to it are in flight; those of this round are when it ends.
	while (done < posted) await new Promise((resolve) => setTimeout(resolve, 1));
	const self = agent.addRemote(agent.localMetadata(), [region.descriptor]);
	for (let i = 0; i < 10; i += 1) {
		posted += 1;
		agent.write({
			remote: self,
			pairs: [1, 2, 3, 4].map((remoteElement) => ({
				region,
				element: 0,
				remoteRegion: 0,
				remoteElement,
			})),
			notification: Buffer.from("x"),
		});
	}
}
