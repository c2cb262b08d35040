/** Real NATS servers for tests: on free ports of 127.0.0.1, in folders that go away, ended with the test. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "kvcr-core/testing";
import { afterAll, describe, it } from "vitest";

/** The server program, or `undefined`: `KVCR_NATS_SERVER` when it is set, else the one in PATH or where Debian puts it. */
export const serverProgram: string | undefined = (
	process.env.KVCR_NATS_SERVER
		? [process.env.KVCR_NATS_SERVER]
		: [...(process.env.PATH ?? "").split(":"), "/usr/sbin"].map((folder) =>
				join(folder, "nats-server"),
			)
).find((file) => existsSync(file));

/**
 * Declares tests that need a server. Without the program they are skipped, visibly and with the reason; where `CI` is
 * `true` that is a failure.
 */
export function describeWithServer(name: string, body: () => void): void {
	if (serverProgram !== undefined) {
		describe(name, () => {
			// Registered first, so it runs last: a test that failed half-way leaves no server behind.
			afterAll(async () => {
				for (const server of running) await server.stop();
			});
			body();
		});
		return;
	}
	const reason = "no nats-server found: install it, or set KVCR_NATS_SERVER";
	describe(name, () => {
		if (process.env.CI === "true") {
			it("has a nats-server", () => {
				throw new Error(reason);
			});
		} else it.skip(`needs a server (${reason})`, () => {});
	});
}

/** Waits until `check` holds, for at most `patienceMs`. */
export async function until(
	what: string,
	check: () => boolean,
	patienceMs = 8_000,
): Promise<void> {
	const end = performance.now() + patienceMs;
	while (!check()) {
		if (performance.now() > end)
			throw new Error(`waited ${patienceMs} ms in vain for: ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}

const running = new Set<NatsServer>();

/** The last resort, when the test process itself is ended. */
function endAll(): void {
	for (const server of running) server.destroy();
}
process.on("exit", endAll);
process.on("SIGTERM", () => {
	endAll();
	process.exit(143);
});

/** One server. */
export class NatsServer {
	private child: ChildProcess | undefined;
	/** What the server logged, for a failing test. */
	log = "";

	private constructor(
		readonly port: number,
		private readonly folder: string,
		private readonly configFile: string,
	) {}

	/** Starts a server whose configuration is `config`, after the listen address. */
	static async start(config = "", port?: number): Promise<NatsServer> {
		const chosen = port ?? (await freePort());
		const folder = mkdtempSync(join(tmpdir(), "kvcr-nats-"));
		const configFile = join(folder, "server.conf");
		writeFileSync(configFile, `listen: "127.0.0.1:${chosen}"\n${config}\n`);
		const server = new NatsServer(chosen, folder, configFile);
		running.add(server);
		try {
			await server.run();
		} catch (error) {
			await server.stop();
			throw error;
		}
		return server;
	}

	/** `host:port` for clients. */
	get address(): string {
		return `127.0.0.1:${this.port}`;
	}

	/** Replaces the configuration of the running server. */
	async reload(config: string): Promise<void> {
		writeFileSync(
			this.configFile,
			`listen: "127.0.0.1:${this.port}"\n${config}\n`,
		);
		const before = this.log.length;
		this.child?.kill("SIGHUP");
		await until("the reload", () =>
			this.log.slice(before).includes("Reloaded server configuration"),
		);
	}

	/** Starts the process and waits until it takes clients. */
	async run(): Promise<void> {
		if (serverProgram === undefined) throw new Error("no nats-server");
		const child = spawn(serverProgram, ["-c", this.configFile], {
			stdio: ["ignore", "ignore", "pipe"],
		});
		this.child = child;
		this.log = "";
		child.stderr?.on("data", (text) => {
			this.log += text;
		});
		await until(
			`nats-server on ${this.port}`,
			() => this.log.includes("Server is ready") || child.exitCode !== null,
		);
		if (child.exitCode !== null)
			throw new Error(`nats-server ended: ${this.log}`);
	}

	/** Suspends or resumes the process: a server that hangs. */
	signal(signal: "SIGSTOP" | "SIGCONT"): void {
		this.child?.kill(signal);
	}

	/** Ends the process and waits for its end. */
	async kill(signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
		const { child } = this;
		this.child = undefined;
		if (child === undefined) return;
		const ended = new Promise<void>((resolve) =>
			child.exitCode !== null || child.signalCode !== null
				? resolve()
				: child.once("exit", () => resolve()),
		);
		child.kill("SIGCONT");
		child.kill(signal);
		await ended;
	}

	/** Ends the process and removes its folder. */
	async stop(): Promise<void> {
		await this.kill();
		this.destroy();
	}

	/** The same without waiting. */
	destroy(): void {
		running.delete(this);
		this.child?.kill("SIGKILL");
		this.child = undefined;
		rmSync(this.folder, { recursive: true, force: true });
	}
}

/** Three servers that know each other. */
export async function startCluster(size = 3): Promise<NatsServer[]> {
	const routes: number[] = [];
	for (let i = 0; i < size; i++) routes.push(await freePort());
	const all = routes.map((port) => `nats://127.0.0.1:${port}`).join(", ");
	const servers = await Promise.all(
		routes.map((port, i) =>
			NatsServer.start(
				`server_name: "n${i}"\ncluster { name: kvcr, listen: "127.0.0.1:${port}", routes: [${all}] }`,
			),
		),
	);
	await until("routes between all servers", () =>
		servers.every(
			(server) =>
				new Set(server.log.match(/rid:\d+ - Route connection created/g)).size >=
				size - 1,
		),
	);
	return servers;
}

/** True when `openssl` is there to make test certificates. */
export function hasOpenssl(): boolean {
	return spawnSync("openssl", ["version"]).status === 0;
}
