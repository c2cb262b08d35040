/** A process of the bench: commands go in and answers come out as JSON lines. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

/** Longest any answer may take, in milliseconds. */
const PATIENCE_MS = 180_000;

/** Ticks per second in `/proc/PID/stat`, on every Linux. */
const TICKS = 100;

export class JsonProcess {
	readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
	readonly #answers: unknown[] = [];
	readonly #exited: Promise<void>;
	#ended = false;
	#errors = "";
	#wake: (() => void) | undefined;

	constructor(
		command: string,
		args: readonly string[],
		env: NodeJS.ProcessEnv = process.env,
	) {
		this.#child = spawn(command, args, {
			env,
			stdio: ["pipe", "pipe", "pipe"],
		});
		this.#child.stdin.on("error", () => {
			// The process is gone, which the missing answer tells.
		});
		this.#child.on("error", (error) => {
			this.#errors += error.message;
			this.#ended = true;
			this.#wake?.();
		});
		this.#child.stderr.on("data", (data) => {
			this.#errors = (this.#errors + String(data)).slice(-4_000);
		});
		createInterface({ input: this.#child.stdout }).on("line", (line) => {
			this.#answers.push(JSON.parse(line));
			this.#wake?.();
		});
		this.#exited = new Promise((resolve) =>
			this.#child.on("close", () => {
				this.#ended = true;
				this.#wake?.();
				resolve();
			}),
		);
	}

	/** Sends a command and waits for its answer. */
	ask<T>(command: object): Promise<T> {
		this.#child.stdin.write(`${JSON.stringify(command)}\n`);
		return this.answer();
	}

	/** The next answer. @throws Error with what the process wrote last when there is none. */
	async answer<T>(): Promise<T> {
		const until = performance.now() + PATIENCE_MS;
		while (this.#answers.length === 0) {
			if (this.#ended || performance.now() > until)
				throw new Error(`a process of the bench is silent: ${this.#errors}`);
			await new Promise<void>((resolve) => {
				const timer = setTimeout(resolve, 1_000);
				this.#wake = () => {
					clearTimeout(timer);
					resolve();
				};
			});
		}
		return this.#answers.shift() as T;
	}

	/** Processor time so far, of all threads, in seconds. */
	cpuSeconds(): number {
		const stat = readFileSync(`/proc/${this.#child.pid}/stat`, "utf8");
		const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
		return (Number(fields[11]) + Number(fields[12])) / TICKS;
	}

	/** Asks it to end, and ends it. */
	async end(): Promise<void> {
		if (!this.#ended)
			this.#child.stdin.write(`${JSON.stringify({ cmd: "close" })}\n`);
		const timer = setTimeout(() => this.#child.kill("SIGKILL"), 15_000);
		await this.#exited;
		clearTimeout(timer);
	}
}
