/**
 * `npm run demo [-- --hint FILE] [-- --agent nixl|portable]`: one worker pulls KV blocks from another because a hint says so.
 *
 * In a hint file `$SOURCE` stands for the control endpoint of the demo's source. The exit code is 0 only if every outcome is
 * the expected one, every byte is right and nothing is left over.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chooseAgent } from "./agent.js";

/** Longest the whole demo may take, in milliseconds. */
const LIMIT_MS = 60_000;

const { values } = parseArgs({
	options: { hint: { type: "string" }, agent: { type: "string" } },
});
if (
	values.agent !== undefined &&
	values.agent !== "nixl" &&
	values.agent !== "portable"
) {
	throw new Error(
		`--agent must be nixl or portable, got ${JSON.stringify(values.agent)}`,
	);
}
const hintFile = values.hint ?? file("hint.json");
const template = await readFile(hintFile, "utf8");
const { kind, reason } = await chooseAgent(values.agent);
console.log(
	kind === "nixl"
		? "running over NIXL"
		: `running over the portable agent (TCP), not NIXL: ${reason}`,
);

const folder = await mkdtemp(join(tmpdir(), "kvcr-demo-"));
const children: ChildProcess[] = [];
const limit = setTimeout(() => {
	console.error(`demo: not done after ${LIMIT_MS / 1000} s`);
	for (const child of children) child.kill("SIGKILL");
}, LIMIT_MS);
try {
	const source = start("source.ts", [kind]);
	const ready = (await firstMessage(source)) as {
		endpoint: string;
		blocks: number;
	};
	console.log(
		`source: ${ready.blocks} blocks deposited, control channel ${ready.endpoint}`,
	);
	const resolved = join(folder, "hint.json");
	await writeFile(resolved, template.replaceAll("$SOURCE", ready.endpoint));
	const destination = start("destination.ts", [kind, resolved]);
	const failed = await exitCode(destination);
	source.send("stop");
	process.exitCode = failed || (await exitCode(source));
} finally {
	clearTimeout(limit);
	for (const child of children)
		if (child.exitCode === null) child.kill("SIGKILL");
	await rm(folder, { recursive: true, force: true });
}

function file(name: string): string {
	return fileURLToPath(new URL(name, import.meta.url));
}

function start(name: string, args: readonly string[]): ChildProcess {
	const child = fork(file(name), args);
	children.push(child);
	return child;
}

/** The first message of a child. @throws when the child ends before. */
async function firstMessage(child: ChildProcess): Promise<unknown> {
	const ended = new AbortController();
	child.once("exit", () => ended.abort());
	const [message] = await once(child, "message", { signal: ended.signal });
	return message;
}

async function exitCode(child: ChildProcess): Promise<number> {
	if (child.exitCode === null && child.signalCode === null)
		await once(child, "exit");
	return child.exitCode ?? 1;
}
