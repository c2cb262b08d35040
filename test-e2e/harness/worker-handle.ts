/** The test's side of a worker process. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { OVER_RELAYS } from "../../packages/kvcr-nixl/test/relay.js";
import type {
	CommandName,
	Commands,
	Reply,
	WorkerOptions,
} from "./commands.js";

/** Longest a worker may take to start or to answer a command, in milliseconds. */
const PATIENCE_MS = 30_000;

/** An error a command ended with in the worker. */
export class WorkerError extends Error {
	readonly code: string;
	constructor(name: string, code: string, message: string) {
		super(message);
		this.name = name;
		this.code = code;
	}
}

/** What scenarios may do with a worker, wherever it runs. */
export interface TestWorker {
	readonly options: WorkerOptions;
	readonly info: Commands["info"]["result"];
	/** Where its control channel is reached. */
	readonly endpoint: string;
	/** Runs one command. @throws what it ended with there. */
	call<N extends CommandName>(
		name: N,
		...args: Commands[N]["args"]
	): Promise<Commands[N]["result"]>;
	/** Closes the instance; resolves with the exit code of its process. */
	close(): Promise<number>;
	/** Ends it, however. */
	kill(): Promise<void>;
}

/** One worker process. */
export class Worker implements TestWorker {
	readonly options: WorkerOptions;
	readonly info: Commands["info"]["result"];
	readonly #child: ChildProcess;
	readonly #stderr: string[];
	readonly #open = new Map<
		number,
		{ resolve(value: unknown): void; reject(error: Error): void }
	>();
	#nextId = 1;

	private constructor(
		child: ChildProcess,
		options: WorkerOptions,
		info: Commands["info"]["result"],
		stderr: string[],
	) {
		this.#child = child;
		this.options = options;
		this.info = info;
		this.#stderr = stderr;
		child.on("message", (reply: Reply) => this.#answered(reply));
		child.on("exit", (code, signal) => {
			for (const { reject } of this.#open.values())
				reject(
					new Error(`worker ended (${signal ?? code}): ${stderr.join("")}`),
				);
			this.#open.clear();
		});
	}

	/** Starts a worker and waits until it can be reached. */
	static async start(options: WorkerOptions): Promise<Worker> {
		const text = JSON.stringify(options, (_name, value: unknown) =>
			value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value,
		);
		const child = fork(
			fileURLToPath(new URL("./worker.ts", import.meta.url)),
			[text],
			{
				serialization: "advanced",
				stdio: ["ignore", "inherit", "pipe", "ipc"],
				env: { ...process.env, ...(options.behindRelay && OVER_RELAYS) },
				execArgv: [
					...["--expose-gc", "--import", import.meta.resolve("tsx")],
					// Workers read the built packages, as an application would. During work on a package its sources are quicker.
					...(process.env.KVCR_E2E_SOURCES ? ["--conditions=kvcr-source"] : []),
				],
			},
		);
		const stderr: string[] = [];
		child.stderr?.on("data", (data) => stderr.push(String(data)));
		const ended = new AbortController();
		const timer = setTimeout(() => ended.abort(), PATIENCE_MS);
		const onExit = (): void => ended.abort();
		child.once("exit", onExit);
		try {
			const [first] = (await once(child, "message", {
				signal: ended.signal,
			})) as [Reply & { value: Commands["info"]["result"] }];
			return new Worker(child, options, first.value, stderr);
		} catch {
			child.kill("SIGKILL");
			throw new Error(`a worker did not start: ${stderr.join("")}`);
		} finally {
			clearTimeout(timer);
			child.off("exit", onExit);
		}
	}

	get endpoint(): string {
		return this.info.endpoint;
	}

	get pid(): number {
		return this.#child.pid ?? -1;
	}

	/** Runs one command. @throws WorkerError with what it ended with there. */
	async call<N extends CommandName>(
		name: N,
		...args: Commands[N]["args"]
	): Promise<Commands[N]["result"]> {
		const id = this.#nextId++;
		let timer: NodeJS.Timeout | undefined;
		try {
			return (await new Promise((resolve, reject) => {
				this.#open.set(id, { resolve, reject });
				timer = setTimeout(
					() =>
						reject(
							new Error(
								`${name}: no answer from the worker: ${this.#stderr.join("")}`,
							),
						),
					PATIENCE_MS,
				);
				this.#child.send({ id, name, args });
			})) as Commands[N]["result"];
		} finally {
			clearTimeout(timer);
			this.#open.delete(id);
		}
	}

	/** Closes the instance and waits until the process has ended by itself. Returns its exit code. */
	async close(): Promise<number> {
		await this.call("close");
		return this.ended();
	}

	/** Ends the process without a word. */
	async kill(): Promise<void> {
		if (this.#child.exitCode !== null || this.#child.signalCode !== null)
			return;
		this.#child.kill("SIGKILL");
		await this.ended();
	}

	signal(name: NodeJS.Signals): void {
		this.#child.kill(name);
	}

	/** Waits for the end of the process. -1: by a signal. */
	async ended(): Promise<number> {
		if (this.#child.exitCode === null && this.#child.signalCode === null)
			await once(this.#child, "exit", {
				signal: AbortSignal.timeout(PATIENCE_MS),
			});
		return this.#child.exitCode ?? -1;
	}

	/** What the process wrote to its standard error. */
	get errors(): string {
		return this.#stderr.join("");
	}

	#answered(reply: Reply): void {
		const open = this.#open.get(reply.id);
		if (open === undefined) return;
		if (reply.ok) open.resolve(reply.value);
		else
			open.reject(
				new WorkerError(
					reply.error.name,
					reply.error.code,
					reply.error.message,
				),
			);
	}
}
