/**
 * The Python KVCR, partner of the interop suite, in a virtual environment below `.cache/`.
 *
 * Only wheels, and of NIXL's package only what runs on CPUs: its declared dependencies would bring torch.
 */
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

const KVCR = "kvcr==0.1.1";

/** What pip installs, in two goes: with exactly these, and with what they depend on. */
const WITHOUT_DEPENDENCIES = [KVCR, "nixl==1.5.0", "nixl-cu12==1.5.0"];
const WITH_DEPENDENCIES = ["msgspec>=0.21,<1", "pyzmq>=25,<28", "numpy<3"];

/** What must work in the end, without opening any device. */
const CHECK =
	"import kvcr, nixl, msgspec, zmq, numpy; print('Python', __import__('platform').python_version())";

/** Longest one installation, and anything else, may take, in milliseconds. */
const INSTALL_TIMEOUT_MS = 240_000;
const SHORT_TIMEOUT_MS = 60_000;

/** @type {import("../lib/part.mjs").Part} */
export const pythonPeer = {
	name: "python-peer",
	required: false,
	async ensure({ cache, env, log }) {
		const home = join(cache, "python-peer", KVCR.replace("==", "-"));
		const python = env.KVCR_PYTHON_PEER ?? join(home, "bin/python");
		if (!existsSync(python)) {
			if (process.platform !== "linux")
				return { status: "skipped", reason: "NIXL has wheels for Linux only" };
			if (which("python3", env) === undefined)
				return { status: "skipped", reason: "no python3 in PATH" };
			const pip = await run("python3", ["-m", "pip", "--version"], {
				env,
				timeoutMs: SHORT_TIMEOUT_MS,
			});
			if (pip.code !== 0)
				return {
					status: "skipped",
					reason: "python3 has no pip (Debian: python3-pip)",
				};
			log(`installing the Python ${KVCR} into .cache`);
			await install(join(cache, "python-peer"), home, env);
		}
		const check = await run(python, ["-c", CHECK], {
			env,
			timeoutMs: SHORT_TIMEOUT_MS,
		});
		if (check.code !== 0)
			return {
				status: "skipped",
				reason: `${python} cannot load ${KVCR}: ${tail(check.output, 3)}`,
			};
		return {
			status: "ready",
			detail: `${KVCR}, ${check.output.trim()}`,
			env: { KVCR_PYTHON_PEER: python },
		};
	},
};

/**
 * @param {string} parent
 * @param {string} home appears only when complete
 * @param {NodeJS.ProcessEnv} env
 */
async function install(parent, home, env) {
	mkdirSync(parent, { recursive: true });
	const work = mkdtempSync(join(parent, "work-"));
	const tree = join(work, "venv");
	/**
	 * @param {readonly string[]} args
	 * @param {number} timeoutMs
	 */
	const python3 = async (args, timeoutMs) => {
		const { code, output } = await run("python3", args, {
			cwd: work,
			env,
			timeoutMs,
		});
		if (code !== 0)
			throw new BootstrapError(
				`python3 ${args.slice(0, 2).join(" ")} failed; check that pip reaches its index (python3 -m pip config list). It said:\n${tail(output)}`,
			);
	};
	/** @param {readonly string[]} packages */
	const pipInstall = (packages) =>
		python3(
			[
				// The environment needs no pip of its own, which not every Python can give it.
				...["-m", "pip", "--python", join(tree, "bin/python"), "install"],
				...["--only-binary=:all:", "--no-cache-dir", "-q"],
				...["--disable-pip-version-check", ...packages],
			],
			INSTALL_TIMEOUT_MS,
		);
	try {
		await python3(["-m", "venv", "--without-pip", tree], SHORT_TIMEOUT_MS);
		await pipInstall(["--no-deps", ...WITHOUT_DEPENDENCIES]);
		await pipInstall(WITH_DEPENDENCIES);
		rmSync(home, { recursive: true, force: true });
		renameSync(tree, home);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
}
