/**
 * NIXL's shared libraries, from its wheel. The wheel is unpacked with its tree as it is: the libraries
 * find each other by relative paths. Nothing is installed into any Python.
 */
import {
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	renameSync,
	rmSync,
} from "node:fs";
import { join } from "node:path";
import { run, tail, which } from "../lib/exec.mjs";
import { BootstrapError } from "../lib/part.mjs";

const WHEEL = "nixl-cu12==1.5.1";
const LIBRARY = ".nixl_cu12.mesonpy.libs/libnixl_capi.so";

/** Longest the download, and the unpacking, may take, in milliseconds. */
const DOWNLOAD_TIMEOUT_MS = 240_000;
const UNPACK_TIMEOUT_MS = 60_000;

/** @type {import("../lib/part.mjs").Part} */
export const nixl = {
	name: "nixl",
	required: false,
	async ensure({ cache, env, log }) {
		const home = join(cache, "nixl", WHEEL.replace("==", "-"));
		const library = join(home, LIBRARY);
		if (!existsSync(library)) {
			if (process.platform !== "linux")
				return { status: "skipped", reason: "NIXL has wheels for Linux only" };
			if (which("python3", env) === undefined)
				return { status: "skipped", reason: "no python3 in PATH" };
			const pip = await run("python3", ["-m", "pip", "--version"], {
				env,
				timeoutMs: UNPACK_TIMEOUT_MS,
			});
			if (pip.code !== 0)
				return {
					status: "skipped",
					reason: "python3 has no pip (Debian: python3-pip)",
				};
			log(`downloading ${WHEEL}`);
			await download(join(cache, "nixl"), home, env);
		}
		return {
			status: "ready",
			detail: WHEEL,
			// An empty one counts as none, as it does for the agent.
			env: { KVCR_NIXL_LIBRARY: env.KVCR_NIXL_LIBRARY || library },
		};
	},
};

/**
 * @param {string} parent
 * @param {string} home appears only when complete
 * @param {NodeJS.ProcessEnv} env
 */
async function download(parent, home, env) {
	mkdirSync(parent, { recursive: true });
	const work = mkdtempSync(join(parent, "work-"));
	try {
		const fetched = await run(
			"python3",
			[
				...["-m", "pip", "download", "--no-deps", "--only-binary=:all:"],
				// Only the C library is used, so any Python's wheel will do: this one is there
				// whatever Python the machine has.
				...["--python-version", "3.12"],
				...["--no-cache-dir", "--disable-pip-version-check", "-q"],
				...["-d", work, WHEEL],
			],
			{ cwd: work, env, timeoutMs: DOWNLOAD_TIMEOUT_MS },
		);
		const wheel = readdirSync(work).find((file) => file.endsWith(".whl"));
		if (fetched.code !== 0 || wheel === undefined)
			throw new BootstrapError(
				`pip could not download ${WHEEL}; check that it reaches its index (python3 -m pip config list). It said:\n${tail(fetched.output)}`,
			);
		const tree = join(work, "tree");
		const unpacked = await run(
			"python3",
			["-m", "zipfile", "-e", wheel, tree],
			{
				cwd: work,
				env,
				timeoutMs: UNPACK_TIMEOUT_MS,
			},
		);
		if (unpacked.code !== 0 || !existsSync(join(tree, LIBRARY)))
			throw new BootstrapError(
				`${wheel} did not unpack to a tree with ${LIBRARY}:\n${tail(unpacked.output)}`,
			);
		rmSync(home, { recursive: true, force: true });
		renameSync(tree, home);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
}
