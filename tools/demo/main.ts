/**
 * `npm run demo [-- --hint FILE] [-- --agent nixl|portable]`: one worker pulls KV blocks from another because a hint says so.
 *
 * In a hint file `$SOURCE` stands for the control endpoint of the demo's source. The exit code is 0 only if every outcome is
 * the expected one, every byte is right and nothing is left over; 2 when the arguments or the hint cannot be used.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { chooseAgent } from "./agent.js";
import { readArguments } from "./arguments.js";
import { UsageError } from "./usage-error.js";

/** Longest the whole demo may take, in milliseconds. */
const LIMIT_MS = 60_000;

const children: ChildProcess[] = [];
const limit = setTimeout(() => {
	console.error(`demo: not done after ${LIMIT_MS / 1000} s`);
	killAll();
}, LIMIT_MS);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
	process.once(signal, () => {
		killAll();
		process.exit(1);
	});
try {
	process.exitCode = await demo();
} catch (error) {
	if (!(error instanceof UsageError)) throw error;
	console.error(error.message);
	process.exitCode = 2;
} finally {
	clearTimeout(limit);
	killAll();
}

/** @returns the exit code */
async function demo(): Promise<number> {
	const wanted = readArguments(process.argv.slice(2), file("hint.json"));
	if ("help" in wanted) {
		console.log(wanted.help);
		return 0;
	}
	const { kind, reason } = await chooseAgent(wanted.agent);
	console.log(
		kind === "nixl"
			? "running over NIXL"
			: `running over the portable agent (TCP), not NIXL: ${reason}`,
	);
	const source = start("source.ts", [kind]);
	const ready = (await firstMessage(source)) as
		| { endpoint: string; blocks: number }
		| undefined;
	if (ready === undefined) return (await exitCode(source)) || 1;
	console.log(
		`source: ${ready.blocks} blocks deposited, control channel ${ready.endpoint}`,
	);
	const destination = start("destination.ts", [
		...[kind, wanted.hintFile, ready.endpoint],
	]);
	const failed = await exitCode(destination);
	if (source.connected) source.send("stop");
	return failed || (await exitCode(source));
}

function killAll(): void {
	for (const child of children)
		if (child.exitCode === null && child.signalCode === null)
			child.kill("SIGKILL");
}

function file(name: string): string {
	return fileURLToPath(new URL(name, import.meta.url));
}

function start(name: string, args: readonly string[]): ChildProcess {
	const child = fork(file(name), args);
	children.push(child);
	return child;
}

/** The first message of a child; `undefined` when it ends before. */
async function firstMessage(child: ChildProcess): Promise<unknown> {
	const ended = new AbortController();
	child.once("exit", () => ended.abort());
	try {
		const [message] = await once(child, "message", { signal: ended.signal });
		return message;
	} catch {
		return undefined;
	}
}

async function exitCode(child: ChildProcess): Promise<number> {
	if (child.exitCode === null && child.signalCode === null)
		await once(child, "exit");
	return child.exitCode ?? 1;
}
