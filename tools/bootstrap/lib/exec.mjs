/**
 * Running other programs with an end in sight: bounded in time, with the tail of their output kept.
 *
 * A signal that asks this process to end goes to the programs instead, and none is started any more:
 * whoever waits for one sees it fail, and comes to its own orderly end.
 */
import { spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/** How much of a program's output is kept, in characters; older output is dropped. */
const KEPT_OUTPUT = 200_000;

/** How long a program asked to end may take before it is killed, in milliseconds. */
const GRACE_MS = 5_000;

/** How long the last output of a program that ended may take to arrive, in milliseconds. */
const DRAIN_MS = 1_000;

/** The signals passed on. */
const SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);

/**
 * How to end each program that runs.
 *
 * @type {Set<() => void>}
 */
const running = new Set();

/** Whether this process was asked to end. */
let interrupted = false;

/**
 * @typedef {object} RunOptions
 * @property {string} [cwd]
 * @property {NodeJS.ProcessEnv} [env]
 * @property {number} timeoutMs the program and its children are ended after this long
 * @property {(chunk: string) => void} [onOutput] sees standard output and error as they come
 */

/**
 * @typedef {object} RunResult
 * @property {number | null} code exit code; null when a signal ended the program or it could not start
 * @property {string} output the tail of standard output and error, in order of arrival
 * @property {boolean} timedOut
 */

/**
 * Runs a program to its end and never rejects: a program that cannot be started answers with
 * `code: null` and the reason in `output`. It gets a process group of its own, so that a
 * time-out also reaches what it started.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} options
 * @returns {Promise<RunResult>}
 */
export function run(command, args, options) {
	if (interrupted)
		return Promise.resolve({
			code: null,
			output: `${command}: not started, interrupted\n`,
			timedOut: false,
		});
	return new Promise((settle) => {
		let output = "";
		let timedOut = false;
		/** @param {string} chunk */
		const take = (chunk) => {
			output = (output + chunk).slice(-KEPT_OUTPUT);
			options.onOutput?.(chunk);
		};
		const child = spawn(command, [...args], {
			cwd: options.cwd,
			env: options.env ?? process.env,
			stdio: ["ignore", "pipe", "pipe"],
			detached: true,
		});
		/** @type {NodeJS.Timeout | undefined} */
		let grace;
		const end = () => {
			signalGroup(child.pid, "SIGTERM");
			grace ??= setTimeout(() => signalGroup(child.pid, "SIGKILL"), GRACE_MS);
		};
		const timer = setTimeout(() => {
			timedOut = true;
			take(`\n${command}: ended after ${options.timeoutMs / 1000} s\n`);
			end();
		}, options.timeoutMs);
		track(end);

		/** @type {number | null} */
		let exitCode = null;
		/** @type {NodeJS.Timeout | undefined} */
		let drained;
		const finish = () => {
			clearTimeout(timer);
			clearTimeout(grace);
			clearTimeout(drained);
			untrack(end);
			settle({ code: timedOut ? null : exitCode, output, timedOut });
		};
		child.stdout.setEncoding("utf8").on("data", take);
		child.stderr.setEncoding("utf8").on("data", take);
		child.on("error", (error) => {
			take(`${error.message}\n`);
			finish();
		});
		child.on("exit", (code) => {
			exitCode = code;
			// Something the program left behind must neither outlive it nor hold the pipes open.
			signalGroup(child.pid, "SIGKILL");
			drained = setTimeout(finish, DRAIN_MS);
		});
		child.on("close", finish);
	});
}

/**
 * The full path of a program in `PATH`, or undefined.
 *
 * @param {string} name
 * @param {NodeJS.ProcessEnv} [env]
 */
export function which(name, env = process.env) {
	for (const folder of (env.PATH ?? "").split(delimiter)) {
		const file = join(folder, name);
		try {
			accessSync(file, constants.X_OK);
			if (statSync(file).isFile()) return file;
		} catch {
			// Not in this folder.
		}
	}
	return undefined;
}

/**
 * The last lines of a program's output, for an error message.
 *
 * @param {string} output
 * @param {number} [lines]
 */
export function tail(output, lines = 15) {
	return output.trimEnd().split("\n").slice(-lines).join("\n");
}

function interrupt() {
	interrupted = true;
	for (const end of running) end();
}

/** @param {() => void} end */
function track(end) {
	if (running.size === 0)
		for (const signal of SIGNALS) process.on(signal, interrupt);
	running.add(end);
}

/** @param {() => void} end */
function untrack(end) {
	running.delete(end);
	if (running.size === 0)
		for (const signal of SIGNALS) process.removeListener(signal, interrupt);
}

/**
 * @param {number | undefined} pid
 * @param {NodeJS.Signals} signal
 */
function signalGroup(pid, signal) {
	if (pid === undefined) return;
	try {
		process.kill(-pid, signal);
	} catch {
		// The group is gone, which is what was wanted.
	}
}
