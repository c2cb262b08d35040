import { freePort } from "kvcr-core/testing";
import { expect, it } from "vitest";
import { ZmqControlChannel } from "../src/index.js";

it("gives its port back before close resolves, hundreds of times", async () => {
	const port = await freePort();
	for (let i = 0; i < 300; i += 1) {
		const channel = new ZmqControlChannel({ port });
		await channel.start(() => {});
		expect(channel.endpoint).toBe(`tcp://127.0.0.1:${port}`);
		await channel.close();
	}
});
