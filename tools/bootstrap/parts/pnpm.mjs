/** The pnpm that `packageManager` in the root package.json pins, installed through npm into `.cache/`. */
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { run, tail } from "../lib/exec.mjs";
import { BootstrapError } from "../lib/part.mjs";
import { cache, root } from "../lib/paths.mjs";

/** Longest an installation of pnpm may take, in milliseconds. */
const INSTALL_TIMEOUT_MS = 180_000;

/** @type {import("../lib/part.mjs").Part} */
export const pnpm = {
	name: "pnpm",
	required: true,
	async ensure({ env, log }) {
		const version = pinnedVersion();
		const home = join(cache, "pnpm", version);
		if (installedVersion(home) !== version) {
			log(`installing pnpm ${version}`);
			await install(version, home, env);
		}
		return {
			status: "ready",
			detail: version,
			env: { PATH: join(home, "node_modules/.bin") },
		};
	},
};

/** @returns {string} */
function pinnedVersion() {
	const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
	const match = /^pnpm@([0-9.]+)/.exec(manifest.packageManager ?? "");
	if (match?.[1] === undefined)
		throw new BootstrapError(
			`packageManager in package.json must pin pnpm as "pnpm@X.Y.Z"; it is ${JSON.stringify(manifest.packageManager)}.`,
		);
	return match[1];
}

/** @param {string} home */
function installedVersion(home) {
	try {
		const file = join(home, "node_modules/pnpm/package.json");
		return JSON.parse(readFileSync(file, "utf8")).version;
	} catch {
		return undefined;
	}
}

/**
 * @param {string} version
 * @param {string} home
 * @param {NodeJS.ProcessEnv} env
 */
async function install(version, home, env) {
	rmSync(home, { recursive: true, force: true });
	mkdirSync(home, { recursive: true });
	const { code, output } = await run(
		"npm",
		[
			...["install", "--prefix", home, "--cache", join(cache, "npm")],
			...["--no-save", "--no-package-lock", "--no-audit", "--no-fund"],
			...["--ignore-scripts", "--workspaces=false", "--global=false"],
			...["--loglevel", "error", `pnpm@${version}`],
		],
		{ cwd: home, env, timeoutMs: INSTALL_TIMEOUT_MS },
	);
	if (code !== 0 || installedVersion(home) !== version)
		throw new BootstrapError(
			`npm could not install pnpm ${version}; check that npm reaches its registry (npm config get registry). It said:\n${tail(output)}`,
		);
}
