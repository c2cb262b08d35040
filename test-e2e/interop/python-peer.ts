/** The test's side of a Python KVCR process. Answers to the same commands as a {@link Worker}, as far as they have a counterpart. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Commands, WorkerOptions } from "../harness/commands.js";
import { WorkerError } from "../harness/worker-handle.js";

const SCRIPT = fileURLToPath(new URL("./python/peer.py", import.meta.url));

/** Longest a peer may take to start or to answer a command, in milliseconds. */
const PATIENCE_MS = 30_000;

/** Settings a Python peer understands; they mean what they mean to a worker. */
export type PythonPeerOptions = Pick<
	WorkerOptions,
	| "name"
	| "pools"
	| "frameworkElements"
	| "frameworkBlocks"
	| "operationTimeoutMs"
	| "abandonTimeoutMs"
	| "eagerConnect"
> & {
	/** Port of the control channel. */
	readonly port: number;
};

/** What only a Python peer tells. */
export interface PythonState {
	/** Its gauges, by resource. */
	readonly gauges: Readonly<Record<string, number>>;
	/** Framework pins granted and not released. */
	readonly pins: number;
	/** Reports about memory at risk, as text. */
	readonly reports: readonly string[];
}

/** Commands and what they give. */
export type PythonCommands = Pick<
	Commands,
	| "deposit"
	| "fetch"
	| "deliver"
	| "submitHint"
	| "discardHint"
	| "query"
	| "release"
	| "poll"
	| "close"
> & {
	/** An envelope as a Python router would write it: JSON text, hashes as plain numbers. */
	envelope: { args: [string, readonly bigint[]]; result: string };
	state: { args: []; result: PythonState };
};

/** Commands without an answer yet, by number. */
type OpenCommands = Map<
	number,
	{ resolve(value: unknown): void; reject(error: Error): void }
>;

/** One Python process. */
export class PythonPeer {
	readonly endpoint: string;
	readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
	readonly #stderr: string[];
	readonly #open: OpenCommands;
	#nextId = 1;

	private constructor(
		child: ChildProcessByStdio<Writable, Readable, Readable>,
		endpoint: string,
		stderr: string[],
		open: OpenCommands,
	) {
		this.#child = child;
		this.endpoint = endpoint;
		this.#stderr = stderr;
		this.#open = open;
	}

	/** Starts a peer and waits until it can be reached. */
	static async start(options: PythonPeerOptions): Promise<PythonPeer> {
		const python = process.env.KVCR_PYTHON_PEER ?? "";
		const child = spawn(python, ["-u", SCRIPT, toLine(options)], {
			stdio: ["pipe", "pipe", "pipe"],
		});
		const stderr: string[] = [];
		const open: OpenCommands = new Map();
		child.stderr.on("data", (data) => {
			stderr.push(String(data));
			if (stderr.length > 200) stderr.shift();
		});
		child.stdin.on("error", () => {
			// The process is gone, which its exit tells.
		});
		child.on("error", (error) => stderr.push(error.message));
		child.on("close", (code, signal) => {
			for (const { reject } of open.values())
				reject(
					new Error(
						`the Python peer ended (${signal ?? code}): ${stderr.join("")}`,
					),
				);
			open.clear();
		});
		createInterface({ input: child.stdout }).on("line", (line) => {
			const reply = fromLine(line) as {
				id: number;
				ok: boolean;
				value?: unknown;
				error?: { name: string; message: string };
			};
			const waiting = open.get(reply.id);
			open.delete(reply.id);
			if (reply.ok) waiting?.resolve(reply.value);
			else
				waiting?.reject(
					new WorkerError(
						reply.error?.name ?? "Error",
						"",
						reply.error?.message ?? "",
					),
				);
		});
		try {
			const { endpoint } = (await answer(open, 0, "start", stderr)) as {
				endpoint: string;
			};
			return new PythonPeer(child, endpoint, stderr, open);
		} catch (error) {
			child.kill("SIGKILL");
			throw error;
		}
	}

	get pid(): number {
		return this.#child.pid ?? -1;
	}

	/** Runs one command. @throws WorkerError with the exception it ended with there. */
	async call<N extends keyof PythonCommands>(
		name: N,
		...args: PythonCommands[N]["args"]
	): Promise<PythonCommands[N]["result"]> {
		const id = this.#nextId++;
		this.#child.stdin.write(`${toLine({ id, name, args })}\n`);
		return (await answer(
			this.#open,
			id,
			name,
			this.#stderr,
		)) as PythonCommands[N]["result"];
	}

	/** Closes the KVCR and waits until the process has ended. Returns its exit code. */
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
}

function answer(
	open: OpenCommands,
	id: number,
	name: string,
	stderr: readonly string[],
): Promise<unknown> {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(() => {
			open.delete(id);
			reject(new Error(`${name}: no answer from Python: ${stderr.join("")}`));
		}, PATIENCE_MS);
		open.set(id, {
			resolve(value) {
				clearTimeout(timer);
				resolve(value);
			},
			reject(error) {
				clearTimeout(timer);
				reject(error);
			},
		});
	});
}

/** JSON in which bytes are `hex:...` and bigints `int:...`. */
function toLine(value: unknown): string {
	return JSON.stringify(value, (_name, entry: unknown) => {
		if (entry instanceof Uint8Array)
			return `hex:${Buffer.from(entry).toString("hex")}`;
		return typeof entry === "bigint" ? `int:${entry}` : entry;
	});
}

function fromLine(line: string): unknown {
	return JSON.parse(line, (_name, entry: unknown) => {
		if (entry === null) return undefined;
		if (typeof entry !== "string") return entry;
		if (entry.startsWith("hex:"))
			return new Uint8Array(Buffer.from(entry.slice(4), "hex"));
		return entry.startsWith("int:") ? BigInt(entry.slice(4)) : entry;
	});
}
