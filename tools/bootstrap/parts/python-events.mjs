/** A Python with msgspec and pyzmq, for the publisher of KV events that tests drive: a virtual environment in `.cache/`. */
import {
	existsSync,
	mkdirSync,
	mkdtempSync,
	renameSync,
	rmSync,
} from "node:fs";
import { join } from "node:path";
import { run, tail, which } from "../lib/exec.mjs";
import { BootstrapError } from "../lib/part.mjs";

const PACKAGES = ["msgspec==0.20.0", "pyzmq==27.1.0"];

/** Longest that making the environment, or filling it, may take, in milliseconds. */
const MAKE_TIMEOUT_MS = 60_000;
const INSTALL_TIMEOUT_MS = 240_000;

/** @type {import("../lib/part.mjs").Part} */
export const pythonEvents = {
	name: "python-events",
	required: false,
	async ensure({ cache, env, log }) {
		const home = join(cache, "python-events");
		const python = env.KVCR_EVENTS_PYTHON ?? join(home, "bin", "python");
		if (!existsSync(python)) {
			if (which("python3", env) === undefined)
				return { status: "skipped", reason: "no python3 in PATH" };
			const able = await run("python3", ["-c", "import ensurepip, venv"], {
				env,
				timeoutMs: MAKE_TIMEOUT_MS,
			});
			if (able.code !== 0)
				return {
					status: "skipped",
					reason:
						"python3 cannot make virtual environments (Debian: python3-venv)",
				};
			log(`installing ${PACKAGES.join(" and ")}`);
			await install(cache, home, env);
		}
		return {
			status: "ready",
			detail: PACKAGES.join(", "),
			env: { KVCR_EVENTS_PYTHON: python },
		};
	},
};

/**
 * @param {string} cache
 * @param {string} home appears only when complete
 * @param {NodeJS.ProcessEnv} env
 */
async function install(cache, home, env) {
	mkdirSync(cache, { recursive: true });
	const work = mkdtempSync(join(cache, "python-events-"));
	try {
		const steps = /** @type {const} */ ([
			["python3", ["-m", "venv", work], MAKE_TIMEOUT_MS],
			[
				join(work, "bin", "python"),
				[
					...["-m", "pip", "install", "-q", "--disable-pip-version-check"],
					...["--only-binary=:all:", ...PACKAGES],
				],
				INSTALL_TIMEOUT_MS,
			],
		]);
		for (const [command, args, timeoutMs] of steps) {
			const { code, output } = await run(command, args, { env, timeoutMs });
			if (code !== 0)
				throw new BootstrapError(
					`${PACKAGES.join(" and ")} could not be installed; check that pip reaches its index (python3 -m pip config list). It said:\n${tail(output)}`,
				);
		}
		// The interpreter finds its packages relative to itself, so the folder may move; the scripts beside it may not be used.
		rmSync(home, { recursive: true, force: true });
		renameSync(work, home);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
}
