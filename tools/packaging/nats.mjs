/** A NATS server on a free port of 127.0.0.1, for as long as one program takes. */
import { spawn } from "node:child_process";
import { once } from "node:events";

const START_TIMEOUT_MS = 10_000;

/**
 * Starts the server that `KVCR_NATS_SERVER` names.
 *
 * @returns {Promise<{ url: string, stop: () => Promise<void> }>}
 * @throws Error with its log when it does not start
 */
export async function startNats() {
	const child = spawn(
		process.env.KVCR_NATS_SERVER ?? "nats-server",
		// -1: any free port, which its log then tells.
		["--addr", "127.0.0.1", "--port", "-1"],
		{ stdio: ["ignore", "ignore", "pipe"] },
	);
	const ended = once(child, "exit").catch(() => {});
	let log = "";
	const port = await new Promise((resolve, reject) => {
		const fail = () => reject(new Error(`nats-server did not start: ${log}`));
		const timer = setTimeout(() => {
			child.kill("SIGKILL");
			fail();
		}, START_TIMEOUT_MS);
		child.once("error", fail);
		child.once("exit", fail);
		child.stderr.setEncoding("utf8").on("data", (text) => {
			log += text;
			const match = /client connections on 127\.0\.0\.1:(\d+)/.exec(log);
			if (match === null || !log.includes("Server is ready")) return;
			clearTimeout(timer);
			resolve(match[1]);
		});
	});
	return {
		url: `127.0.0.1:${port}`,
		async stop() {
			child.kill("SIGTERM");
			await ended;
		},
	};
}
