/** What the tests of this package share. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { NixlTransferAgent } from "../src/index.js";

/** NIXL's C library: what the environment names, or what the bootstrap has unpacked. */
export const libraryPath =
	process.env.KVCR_NIXL_LIBRARY ??
	join(
		import.meta.dirname,
		"../../../.cache/nixl/nixl-cu12-1.5.1/.nixl_cu12.mesonpy.libs/libnixl_capi.so",
	);

/** Why tests that need NIXL are skipped, or undefined. Nothing is skipped where NIXL is required. */
export const missingNixl =
	existsSync(libraryPath) || process.env.KVCR_REQUIRE_NIXL === "1"
		? undefined
		: `no NIXL library at ${libraryPath}`;

/** A new agent over the library under test. */
export function createAgent(name?: string): Promise<NixlTransferAgent> {
	return NixlTransferAgent.create({
		libraryPath,
		...(name === undefined ? {} : { name }),
	});
}

/** How a child process ended. */
export interface Ended {
	readonly pid: number | undefined;
	readonly code: number | null;
	readonly signal: NodeJS.Signals | null;
	readonly stdout: string;
	readonly stderr: string;
}

/** A program in `test/children`, running. */
export class Child {
	readonly process: ChildProcess;
	readonly ended: Promise<Ended>;
	#stdout = "";
	#stderr = "";

	/** @param env added to this process's environment; undefined removes. */
	constructor(
		program: string,
		args: readonly string[] = [],
		env: Record<string, string | undefined> = {},
		nodeArgs: readonly string[] = [],
	) {
		this.process = spawn(
			process.execPath,
			[
				...["--conditions=kvcr-source", "--import", "tsx", ...nodeArgs],
				join(import.meta.dirname, "children", program),
				...args,
			],
			{
				env: {
					...process.env,
					KVCR_NIXL_LIBRARY: libraryPath,
					UCX_LOG_LEVEL: "fatal",
					...env,
				},
				stdio: ["pipe", "pipe", "pipe"],
			},
		);
		this.process.stdout?.on("data", (data) => {
			this.#stdout += String(data);
		});
		this.process.stderr?.on("data", (data) => {
			this.#stderr += String(data);
		});
		this.ended = new Promise((resolve) => {
			this.process.on("close", (code, signal) =>
				resolve({
					pid: this.process.pid,
					code,
					signal,
					stdout: this.#stdout,
					stderr: this.#stderr,
				}),
			);
		});
	}

	/** The first line of output, when it comes. */
	async line(): Promise<string> {
		return (await this.lines(1))[0] as string;
	}

	/** The first so many lines of output, when they have come. */
	async lines(count: number): Promise<string[]> {
		for (;;) {
			const whole = this.#stdout.split("\n").slice(0, -1);
			if (whole.length >= count) return whole.slice(0, count);
			const ended = await Promise.race([
				this.ended,
				new Promise<undefined>((resolve) =>
					this.process.stdout?.once("data", () => resolve(undefined)),
				),
			]);
			if (ended !== undefined && this.#stdout.split("\n").length <= count)
				throw new Error(`the child ended early: ${ended.stderr}`);
		}
	}

	say(line: string): void {
		this.process.stdin?.write(`${line}\n`);
	}
}

/** Runs a program in `test/children` to its end. */
export function runChild(
	program: string,
	args: readonly string[] = [],
	env: Record<string, string | undefined> = {},
	nodeArgs: readonly string[] = [],
): Promise<Ended> {
	return new Child(program, args, env, nodeArgs).ended;
}
