/** The dependencies of every package, exactly as the lockfile names them. */
import { run, tail } from "../lib/exec.mjs";
import { BootstrapError } from "../lib/part.mjs";
import { root } from "../lib/paths.mjs";

/** Longest an installation may take, in milliseconds. */
const INSTALL_TIMEOUT_MS = 300_000;

/** @type {import("../lib/part.mjs").Part} */
export const workspace = {
	name: "workspace",
	required: true,
	async ensure({ env }) {
		const { code, output } = await run(
			"pnpm",
			[
				...["install", "--frozen-lockfile", "--prefer-offline"],
				// Nobody is there to be asked.
				"--config.confirmModulesPurge=false",
				"--reporter=append-only",
			],
			{ cwd: root, env, timeoutMs: INSTALL_TIMEOUT_MS },
		);
		if (code !== 0)
			throw new BootstrapError(
				output.includes("ERR_PNPM_OUTDATED_LOCKFILE")
					? "pnpm-lock.yaml does not match the package.json files. Run `node tools/bootstrap/pnpm.mjs install` and commit the lockfile."
					: `pnpm could not install the workspace; check that it reaches its registry (npm config get registry). It said:\n${tail(output)}`,
			);
		return { status: "ready", detail: "installed from pnpm-lock.yaml" };
	},
};
