/** The test's side of a manager process. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type {
	CommandName,
	Commands,
	ManagerOptions,
	Reply,
} from "./commands.js";

/** Longest a manager may take to start or to answer, in milliseconds. */
const PATIENCE_MS = 30_000;

export class ManagerProcess {
	readonly name: string;
	#endpoint = "";
	readonly #child: ChildProcess;
	readonly #stderr: string[] = [];
	readonly #open = new Map<
		number,
		{ resolve(value: unknown): void; reject(error: Error): void }
	>();
	#nextId = 1;

	private constructor(child: ChildProcess, name: string) {
		this.name = name;
		this.#child = child;
		child.stderr?.on("data", (data) => this.#stderr.push(String(data)));
		child.on("message", (reply: Reply) => this.#answered(reply));
		child.on("exit", (code, signal) => {
			const error = new Error(
				`${name} ended (${signal ?? code}): ${this.#stderr.join("")}`,
			);
			for (const { reject } of this.#open.values()) reject(error);
			this.#open.clear();
		});
	}

	/** Starts a manager and waits until it can be reached. */
	static async start(options: ManagerOptions): Promise<ManagerProcess> {
		const child = fork(
			fileURLToPath(new URL("./manager.ts", import.meta.url)),
			[JSON.stringify(options)],
			{
				serialization: "advanced",
				stdio: ["ignore", "inherit", "pipe", "ipc"],
				execArgv: nodeArguments(),
			},
		);
		const manager = new ManagerProcess(child, options.name);
		try {
			const info = await manager.#answer<"info">(0);
			manager.#endpoint = info.endpoint;
			return manager;
		} catch (error) {
			child.kill("SIGKILL");
			throw error;
		}
	}

	/** Where its control channel is reached. */
	get endpoint(): string {
		return this.#endpoint;
	}

	/** Runs one command. @throws what it ended with there. */
	call<N extends CommandName>(
		name: N,
		...args: Commands[N]["args"]
	): Promise<Commands[N]["result"]> {
		const id = this.#nextId++;
		const answer = this.#answer<N>(id);
		this.#child.send({ id, name, args });
		return answer;
	}

	/** Shuts the manager down and waits until its process has ended by itself. Gives the exit code. */
	async shutdown(): Promise<number> {
		await this.call("shutdown");
		return this.#ended();
	}

	/** Ends the process without a word. */
	async kill(): Promise<void> {
		this.#child.kill("SIGKILL");
		await this.#ended();
	}

	async #ended(): Promise<number> {
		if (this.#child.exitCode === null && this.#child.signalCode === null)
			await once(this.#child, "exit", {
				signal: AbortSignal.timeout(PATIENCE_MS),
			});
		return this.#child.exitCode ?? -1;
	}

	async #answer<N extends CommandName>(
		id: number,
	): Promise<Commands[N]["result"]> {
		let timer: NodeJS.Timeout | undefined;
		try {
			return (await new Promise((resolve, reject) => {
				this.#open.set(id, { resolve, reject });
				timer = setTimeout(() => {
					const errors = this.#stderr.join("");
					reject(new Error(`${this.name} does not answer: ${errors}`));
				}, PATIENCE_MS);
			})) as Commands[N]["result"];
		} finally {
			clearTimeout(timer);
			this.#open.delete(id);
		}
	}

	#answered(reply: Reply): void {
		const open = this.#open.get(reply.id);
		if (reply.ok) open?.resolve(reply.value);
		else open?.reject(new Error(reply.error));
	}
}

/** How programs of a test are run: from the built packages, as an application would, or from their sources. */
export function nodeArguments(): string[] {
	return [
		...["--import", import.meta.resolve("tsx")],
		...(process.env.KVCR_E2E_SOURCES ? ["--conditions=kvcr-source"] : []),
	];
}
