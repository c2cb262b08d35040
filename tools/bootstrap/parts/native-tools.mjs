/** What it takes to compile the addon: a C++ compiler, make, Python, and the headers of this Node. */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { run, tail, which } from "../lib/exec.mjs";
import { BootstrapError } from "../lib/part.mjs";

/** Longest an installation through apt may take, in milliseconds. */
const INSTALL_TIMEOUT_MS = 240_000;

/** Program to look for, and the Debian package that has it. */
const tools = { "c++": "g++", make: "make", python3: "python3" };

/** @type {import("../lib/part.mjs").Part} */
export const nativeTools = {
	name: "native-tools",
	required: false,
	async ensure({ env, log }) {
		if (missing(env).length > 0) {
			const packages = missing(env).map((tool) => tools[tool]);
			if (which("apt-get", env) === undefined || process.getuid?.() !== 0)
				return {
					status: "skipped",
					reason: `no ${missing(env).join(", ")} in PATH; install a C++17 compiler, make and Python 3 to build the addon`,
				};
			log(`installing ${packages.join(", ")}`);
			await aptInstall(packages, env);
		}
		const headers = nodeHeaders();
		return {
			status: "ready",
			detail: headers === undefined ? "headers fetched by node-gyp" : "found",
			...(headers === undefined
				? {}
				: { env: { npm_config_nodedir: env.npm_config_nodedir ?? headers } }),
		};
	},
};

/**
 * @param {NodeJS.ProcessEnv} env
 * @returns {(keyof typeof tools)[]}
 */
function missing(env) {
	const names = /** @type {(keyof typeof tools)[]} */ (Object.keys(tools));
	return names.filter((tool) => which(tool, env) === undefined);
}

/** The prefix this Node is installed under, when its headers are installed with it. */
function nodeHeaders() {
	const prefix = resolve(dirname(process.execPath), "..");
	return existsSync(join(prefix, "include/node/node_api.h")) &&
		existsSync(join(prefix, "include/node/common.gypi"))
		? prefix
		: undefined;
}

/**
 * @param {string[]} packages
 * @param {NodeJS.ProcessEnv} env
 */
async function aptInstall(packages, env) {
	const options = {
		env: { ...env, DEBIAN_FRONTEND: "noninteractive" },
		timeoutMs: INSTALL_TIMEOUT_MS,
	};
	await run("apt-get", ["-q", "update"], options);
	// Recommended packages can bring the distribution's RDMA libraries, which NIXL's bundled UCX
	// does not survive at exit.
	const { code, output } = await run(
		"apt-get",
		["-qy", "install", "--no-install-recommends", ...packages],
		options,
	);
	if (code !== 0)
		throw new BootstrapError(
			`apt-get could not install ${packages.join(", ")}:\n${tail(output)}`,
		);
}
