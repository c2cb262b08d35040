/** A process whose channels are closed ends by itself. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { describeWithServer, NatsServer } from "./support/nats-server.js";

describeWithServer("a process that closed its channel", () => {
	it("ends by itself", async () => {
		const nats = await NatsServer.start();
		const script = fileURLToPath(
			new URL("./support/short-life.ts", import.meta.url),
		);
		const child = spawn(
			process.execPath,
			["--conditions=kvcr-source", "--import", "tsx", script, nats.address],
			{ stdio: ["ignore", "pipe", "pipe"] },
		);
		try {
			let [output, closedAt] = ["", 0];
			const take = (text: Buffer) => {
				output += text;
				if (output.includes("closed")) closedAt ||= performance.now();
			};
			child.stdout.on("data", take);
			child.stderr.on("data", take);
			const code = await new Promise((resolve) => child.once("exit", resolve));
			expect({ code, output }).toEqual({ code: 0, output: "closed\n" });
			expect(performance.now() - closedAt).toBeLessThan(2_000);
		} finally {
			child.kill("SIGKILL");
			await nats.stop();
		}
	});
});
