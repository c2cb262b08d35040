/** The compiler that builds the addon for 64-bit ARM on an x86-64 machine. */
import { canInstallDebian, installDebian } from "../lib/debian.mjs";
import { which } from "../lib/exec.mjs";

const COMPILER = "aarch64-linux-gnu-g++";
const PACKAGE = "g++-aarch64-linux-gnu";

/** @type {import("../lib/part.mjs").Part} */
export const crossCompiler = {
	name: "cross-compiler",
	required: false,
	async ensure({ env, log }) {
		if (process.platform === "linux" && process.arch === "arm64")
			return { status: "ready", detail: "not needed on 64-bit ARM" };
		if (which(COMPILER, env) === undefined) {
			if (!canInstallDebian(env))
				return {
					status: "skipped",
					reason: `no ${COMPILER} in PATH (Debian: ${PACKAGE})`,
				};
			log(`installing ${PACKAGE}`);
			await installDebian([PACKAGE], env);
		}
		return { status: "ready", detail: COMPILER };
	},
};
