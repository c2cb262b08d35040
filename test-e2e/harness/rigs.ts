/** What scenarios run over: transfer agents and control channels, each with a reason when it cannot be had. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe } from "vitest";
import type { AgentKind, ChannelKind, WorkerOptions } from "./commands.js";
import { Worker } from "./worker-handle.js";

/** One combination, and how tests get workers of it. */
export interface Rig {
	readonly agent: AgentKind;
	readonly channel: ChannelKind;
	/** Starts a worker; it is ended after the test at the latest. */
	worker(name: string, options?: Partial<WorkerOptions>): Promise<Worker>;
}

/** Describes scenarios once for every combination given. What is not to be had here is a visible skip, and a failure in CI. */
export function overRigs(
	title: string,
	combinations: readonly (readonly [AgentKind, ChannelKind])[],
	scenarios: (rig: Rig) => void,
): void {
	for (const [agent, channel] of combinations) {
		const missing = missingReason(agent, channel);
		const name = `${title} [${agent}, ${channel}]`;
		if (missing !== undefined && process.env.CI !== "true") {
			describe.skip(`${name}: ${missing}`, () => scenarios(unusable()));
			continue;
		}
		describe(name, () => {
			const workers: Worker[] = [];
			let nats: NatsServer | undefined;
			beforeAll(async () => {
				if (missing !== undefined) throw new Error(missing);
				if (channel === "nats") nats = await NatsServer.start();
			});
			afterEach(async () => {
				await Promise.all(workers.splice(0).map((worker) => worker.kill()));
			});
			afterAll(() => nats?.stop());
			scenarios({
				agent,
				channel,
				async worker(workerName, options = {}) {
					const worker = await Worker.start({
						agent,
						channel,
						name: workerName,
						...(nats !== undefined && { natsServer: nats.url }),
						...options,
					});
					workers.push(worker);
					return worker;
				},
			});
		});
	}
}

function missingReason(
	agent: AgentKind,
	channel: ChannelKind,
): string | undefined {
	if (agent === "nixl" && !existsSync(process.env.KVCR_NIXL_LIBRARY ?? ""))
		return "NIXL's library is not here (the bootstrap says why)";
	if (channel === "nats" && !existsSync(natsProgram()))
		return "nats-server is not here (the bootstrap says why)";
	return undefined;
}

function unusable(): Rig {
	const worker = (): Promise<Worker> => Promise.reject(new Error("skipped"));
	return { agent: "portable", channel: "zmq", worker };
}

function natsProgram(): string {
	return process.env.KVCR_NATS_SERVER ?? "/usr/sbin/nats-server";
}

/** A free TCP port of the loopback interface. */
export async function freePort(): Promise<number> {
	const server = createServer();
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const address = server.address();
	await new Promise((resolve) => server.close(resolve));
	if (address === null || typeof address === "string")
		throw new Error("no port");
	return address.port;
}

/** A real NATS server on a free port. */
class NatsServer {
	readonly url: string;
	readonly #stop: () => Promise<void>;

	private constructor(url: string, stop: () => Promise<void>) {
		this.url = url;
		this.#stop = stop;
	}

	static async start(): Promise<NatsServer> {
		const folder = await mkdtemp(join(tmpdir(), "kvcr-nats-"));
		const port = await freePort();
		const child = spawn(
			natsProgram(),
			["--addr", "127.0.0.1", "--port", String(port)],
			{ cwd: folder, stdio: ["ignore", "ignore", "pipe"] },
		);
		const exited = new Promise<void>((resolve) =>
			child.once("exit", () => resolve()),
		);
		await new Promise<void>((resolve, reject) => {
			let log = "";
			child.stderr.on("data", (data) => {
				log += String(data);
				if (log.includes("Server is ready")) resolve();
			});
			child.once("exit", () => reject(new Error(`nats-server ended: ${log}`)));
		});
		return new NatsServer(`127.0.0.1:${port}`, async () => {
			child.kill("SIGTERM");
			await exited;
			await rm(folder, { recursive: true, force: true });
		});
	}

	stop(): Promise<void> {
		return this.#stop();
	}
}
