/** Ends a process in many ways: `exits.ts MODE`. Code 42 is the program's own choice. */
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { NixlTransferAgent } from "../../src/index.js";
import { createAgent } from "../helpers.js";

const mode = process.argv[2] ?? "";
const modes: Record<string, () => Promise<void>> = {
	/** Everything closed, the loop runs dry. */
	async closed() {
		const agent = await busyAgent();
		await agent.close();
		process.exitCode = 42;
	},
	/** An open agent with nothing to do does not keep the process. */
	async open() {
		await createAgent();
		process.exitCode = 42;
	},
	/** Neither does one whose last expectation ended. */
	async expected() {
		const agent = await createAgent();
		agent.expectTraffic().end();
		process.exitCode = 42;
	},
	/** Writes in flight keep it until they end. */
	async flight() {
		const agent = await busyAgent();
		agent.attach(() => {
			for (const { outcome } of agent.takeCompletions())
				if (outcome === "done") process.exitCode = 42;
		});
	},
	async exit() {
		await busyAgent();
		process.exit(42);
	},
	async exitInWake() {
		const agent = await busyAgent();
		agent.attach(() => process.exit(42));
	},
	async throw() {
		await busyAgent();
		throw new Error("on purpose");
	},
	async throwInWake() {
		const agent = await busyAgent();
		agent.attach(() => {
			throw new Error("on purpose");
		});
		process.on("uncaughtException", () => process.exit(42));
	},
	async exitWhileClosing() {
		const agent = await busyAgent();
		void agent.close();
		setImmediate(() => process.exit(42));
	},
	async exitWhileCreating() {
		void createAgent();
		setTimeout(() => process.exit(42), 20);
	},
	async exitWhileRegistering() {
		const agent = await createAgent();
		void agent.createRegion({
			label: "r",
			elementBytes: 1 << 20,
			elementCount: 8192,
		});
		setImmediate(() => process.exit(42));
	},
	/** Named shared memory of regions that are open, just released, and of a closed agent. */
	async names() {
		const regions = await Promise.all(
			["open", "released"].map((name) => named(name)),
		);
		regions[1]?.region.release();
		const { agent } = await named("closed");
		await agent.close();
		process.exit(42);
	},
	/** The same for a process that nobody asked to end. */
	async namesAtThrow() {
		await named("thrown");
		throw new Error("on purpose");
	},
	async several() {
		const agents = await Promise.all([1, 2, 3, 4].map(() => busyAgent()));
		await Promise.all(agents.slice(0, 2).map((agent) => agent.close()));
		process.exit(42);
	},
	/** Workers with an agent each: closed, left open, terminated with completions in flight. */
	async workers() {
		await Promise.all(["close", "leave", "terminate", "terminate"].map(worker));
		const agent = await busyAgent();
		await agent.close();
		process.exitCode = 42;
	},
	async workersAtExit() {
		new Worker(fileURLToPath(new URL("./worker.mjs", import.meta.url)), {
			argv: ["terminate"],
		}).on("message", () => process.exit(42));
	},
};

async function worker(how: string): Promise<void> {
	const thread = new Worker(
		fileURLToPath(new URL("./worker.mjs", import.meta.url)),
		{ argv: [how] },
	);
	const ended = new Promise((resolve, reject) => {
		thread.on("exit", resolve);
		thread.on("error", reject);
	});
	if (how === "terminate") thread.on("message", () => void thread.terminate());
	await ended;
}

/** A region whose name others can see, `kvcr-exits-PID-NAME`. */
async function named(name: string) {
	const agent = await createAgent();
	const region = await agent.createRegion({
		label: name,
		elementBytes: 4096,
		elementCount: 4,
		backing: { shared: `kvcr-exits-${process.pid}-${name}` },
	});
	return { agent, region };
}

/** An agent with a thousand small writes and one of 64 MiB to itself in flight. */
async function busyAgent(): Promise<NixlTransferAgent> {
	const agent = await createAgent();
	const region = await agent.createRegion({
		label: "r",
		elementBytes: 1 << 20,
		elementCount: 65,
	});
	const small = await agent.createRegion({
		label: "s",
		elementBytes: 64,
		elementCount: 2,
	});
	const remote = agent.addRemote(agent.localMetadata(), [
		region.descriptor,
		small.descriptor,
	]);
	const notification = Buffer.from("x");
	agent.write({
		remote,
		pairs: Array.from({ length: 64 }, (_, i) => ({
			region,
			element: 0,
			remoteRegion: 0,
			remoteElement: i + 1,
		})),
		notification,
	});
	for (let i = 0; i < 1000; i += 1)
		agent.write({
			remote,
			pairs: [{ region: small, element: 0, remoteRegion: 1, remoteElement: 1 }],
			notification,
		});
	return agent;
}

await modes[mode]?.();
