/** What it takes to compile the addon: a C++ compiler, make, Python, and the headers of this Node. */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { canInstallDebian, installDebian } from "../lib/debian.mjs";
import { which } from "../lib/exec.mjs";

/** Program to look for, and the Debian package that has it. */
const tools = { "c++": "g++", make: "make", python3: "python3" };

/** @type {import("../lib/part.mjs").Part} */
export const nativeTools = {
	name: "native-tools",
	required: false,
	async ensure({ env, log }) {
		if (missing(env).length > 0) {
			const packages = missing(env).map((tool) => tools[tool]);
			if (!canInstallDebian(env))
				return {
					status: "skipped",
					reason: `no ${missing(env).join(", ")} in PATH; install a C++17 compiler, make and Python 3 to build the addon`,
				};
			log(`installing ${packages.join(", ")}`);
			await installDebian(packages, env);
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
