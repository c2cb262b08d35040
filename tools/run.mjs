/**
 * `node tools/run.mjs COMMAND ARGS...`: bootstraps as far as the command needs, then runs it.
 *
 * Commands are TypeScript, run through tsx. A command reads the packages from their sources, so it
 * starts without a build; one with `built` reads what the build made, as an application would.
 * Processes that a command forks with `child_process.fork` inherit either.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { bootstrap } from "./bootstrap/bootstrap.mjs";
import { run, tail } from "./bootstrap/lib/exec.mjs";
import { root } from "./bootstrap/lib/paths.mjs";
import { report } from "./bootstrap/report.mjs";
import { commands } from "./commands.mjs";

/** Longest a build may take, in milliseconds. */
const BUILD_TIMEOUT_MS = 300_000;

const [name = "", ...args] = process.argv.slice(2);
const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
if (command === undefined) {
	console.error(
		`tools/run: no command "${name}"; there are ${Object.keys(commands).join(", ")}.`,
	);
	process.exitCode = 2;
} else {
	try {
		process.exitCode = await main(command);
	} catch (error) {
		console.error(error instanceof Error ? error.message : error);
		process.exitCode = 1;
	}
}

/**
 * @param {import("./commands.mjs").Command} command
 * @returns {Promise<number>} the exit code
 */
async function main({ entry, parts: only, built = false, native = false }) {
	const file = join(root, entry);
	if (!existsSync(file)) {
		console.error(`tools/run: ${entry} does not exist.`);
		return 1;
	}
	const { parts, env } = await bootstrap({ only, log: console.error });
	if (parts.some(({ status }) => status === "failed")) {
		report(parts, console.error);
		return 1;
	}
	for (const { name, status, detail } of parts)
		if (status === "skipped") console.error(`without ${name}: ${detail}`);
	env.PATH = [join(root, "node_modules/.bin"), env.PATH].join(delimiter);
	env.TURBO_TELEMETRY_DISABLED = "1";
	const compiles = parts.some(
		({ name, status }) => name === "native-tools" && status === "ready",
	);
	if (built && !(await build(env, compiles))) return 1;
	if (native && compiles && !(await buildAddon(env)))
		console.error("without NIXL: its addon could not be built");
	const tsx = createRequire(join(root, "package.json")).resolve("tsx");
	return execute(
		[
			...(built ? [] : ["--conditions=kvcr-source"]),
			...["--import", pathToFileURL(tsx).href],
			...[file, ...args],
		],
		env,
	);
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {boolean} compiles whether there is a compiler, which one of the packages needs
 */
async function build(env, compiles) {
	const filter = compiles ? [] : ["--filter=!kvcr-nixl"];
	const { code, output } = await run(
		"turbo",
		["run", "build", ...filter, "--output-logs=errors-only"],
		{ cwd: root, env, timeoutMs: BUILD_TIMEOUT_MS },
	);
	if (code !== 0) console.error(tail(output, 60));
	return code === 0;
}

/**
 * Builds the addon for this machine, unless it is up to date.
 *
 * @param {NodeJS.ProcessEnv} env
 */
async function buildAddon(env) {
	const { code, output } = await run(
		process.execPath,
		["scripts/build-native.mjs"],
		{
			cwd: join(root, "packages/kvcr-nixl"),
			env,
			timeoutMs: BUILD_TIMEOUT_MS,
		},
	);
	if (code !== 0) console.error(tail(output, 30));
	return code === 0;
}

/**
 * @param {string[]} nodeArgs
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<number>}
 */
function execute(nodeArgs, env) {
	return new Promise((settle) => {
		const child = spawn(process.execPath, nodeArgs, { env, stdio: "inherit" });
		for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]))
			process.on(signal, () => child.kill(signal));
		child.on("error", (error) => {
			console.error(error.message);
			settle(1);
		});
		child.on("exit", (code) => settle(code ?? 1));
	});
}
