/** What scenarios run over: transfer agents and control channels, each with a reason when it cannot be had. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "kvcr-core/testing";
import { afterAll, afterEach, beforeAll, describe } from "vitest";
import type { AgentKind, ChannelKind, WorkerOptions } from "./commands.js";
import { LocalWorkers } from "./local-worker.js";
import { type TestWorker, Worker } from "./worker-handle.js";

/** One combination, and how tests get workers of it. */
export interface Rig<W extends TestWorker = Worker> {
	readonly agent: AgentKind;
	readonly channel: ChannelKind;
	/** Starts a worker; it is ended after the test at the latest. */
	worker(name: string, options?: Partial<WorkerOptions>): Promise<W>;
}

/** Combinations whose workers are processes: they can be killed. */
export type ProcessRig = readonly [AgentKind, Exclude<ChannelKind, "memory">];

/** Describes scenarios once for every combination given. What is not to be had here is a visible skip, and a failure in CI. */
export function overRigs(
	title: string,
	combinations: readonly ProcessRig[],
	scenarios: (rig: Rig) => void,
): void {
	for (const [agent, channel] of combinations)
		describeRig(title, agent, channel, scenarios, (options) =>
			Worker.start(options),
		);
}

/** The same for scenarios that need no processes of their own, so that they run over the in-memory network as well. */
export function overAllRigs(
	title: string,
	combinations: readonly (readonly [AgentKind, ChannelKind])[],
	scenarios: (rig: Rig<TestWorker>) => void,
): void {
	for (const [agent, channel] of combinations) {
		const local = new LocalWorkers();
		describeRig<TestWorker>(title, agent, channel, scenarios, (options) =>
			channel === "memory" ? local.start(options) : Worker.start(options),
		);
	}
}

function describeRig<W extends TestWorker>(
	title: string,
	agent: AgentKind,
	channel: ChannelKind,
	scenarios: (rig: Rig<W>) => void,
	start: (options: WorkerOptions) => Promise<W>,
): void {
	const missing = missingReason(agent, channel);
	const name = `${title} [${agent}, ${channel}]`;
	const workers: W[] = [];
	let nats: NatsServer | undefined;
	const rig: Rig<W> = {
		agent,
		channel,
		async worker(workerName, options = {}) {
			const worker = await start({
				agent,
				channel,
				name: workerName,
				...(nats !== undefined && { natsServer: nats.url }),
				...options,
			});
			workers.push(worker);
			return worker;
		},
	};
	if (missing !== undefined && process.env.CI !== "true") {
		describe.skip(`${name}: ${missing}`, () => scenarios(rig));
		return;
	}
	describe(name, () => {
		beforeAll(async () => {
			if (missing !== undefined) throw new Error(missing);
			if (channel === "nats") nats = await NatsServer.start();
		});
		afterEach(async () => {
			await Promise.all(workers.splice(0).map((worker) => worker.kill()));
		});
		afterAll(() => nats?.stop());
		scenarios(rig);
	});
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

function natsProgram(): string {
	return process.env.KVCR_NATS_SERVER ?? "/usr/sbin/nats-server";
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
