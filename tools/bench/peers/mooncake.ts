/** Mooncake's transfer engine, installed for the bench alone: a wheel, and the few system libraries it wants, below `.cache/`. */
import {
	existsSync,
	mkdirSync,
	mkdtempSync,
	renameSync,
	rmSync,
} from "node:fs";
import { join } from "node:path";
import { hasApt, unpackDebian } from "../../bootstrap/lib/debian.mjs";
import { run, tail } from "../../bootstrap/lib/exec.mjs";
import { cache, root } from "../../bootstrap/lib/paths.mjs";

const PACKAGE = "mooncake-transfer-engine-non-cuda==0.3.13.post1";

/** Packages whose libraries it loads. Unpacked, not installed: with them in the system NIXL's processes crash at exit. */
const LIBRARIES = [
	"libibverbs1",
	"libnl-3-200",
	"libnl-route-3-200",
	"libnuma1",
	"libcurl4",
];

const TIMEOUT_MS = 240_000;

/** How to start it, or why not. */
export type Mooncake =
	| {
			readonly python: string;
			readonly env: NodeJS.ProcessEnv;
			readonly version: string;
	  }
	| { readonly missing: string };

/** Finds it, or installs it. Never throws. */
export async function mooncake(python: string): Promise<Mooncake> {
	const home = join(cache, "mooncake", PACKAGE.replace("==", "-"));
	const libraries = join(home, "system");
	const paths = ["usr/lib", "lib"].flatMap((folder) => [
		join(libraries, folder, `${debianArch()}-linux-gnu`),
	]);
	const env = {
		...process.env,
		PYTHONPATH: join(home, "packages"),
		LD_LIBRARY_PATH: paths.join(":"),
		MC_LOG_LEVEL: "ERROR",
		GLOG_minloglevel: "2",
	};
	try {
		if (!existsSync(home)) await install(python, home);
		const check = await run(python, ["-c", "import mooncake.engine"], {
			env,
			timeoutMs: 30_000,
		});
		if (check.code !== 0) return { missing: tail(check.output, 1) };
		return { python, env, version: PACKAGE };
	} catch (error) {
		return { missing: error instanceof Error ? error.message : String(error) };
	}
}

async function install(python: string, home: string): Promise<void> {
	const parent = join(cache, "mooncake");
	mkdirSync(parent, { recursive: true });
	const work = mkdtempSync(join(parent, "work-"));
	try {
		const wheel = await run(
			"python3",
			[
				...["-m", "pip", "--python", python, "install", "--no-deps"],
				...["--only-binary=:all:", "--no-cache-dir", "-q"],
				...["--target", join(work, "packages"), PACKAGE],
			],
			{ cwd: work, timeoutMs: TIMEOUT_MS },
		);
		if (wheel.code !== 0) throw new Error(tail(wheel.output, 2));
		if (hasApt(process.env)) {
			await unpackDebian(LIBRARIES, join(work, "system"), {
				root,
				cache,
				env: process.env,
				log: () => {},
			});
		}
		renameSync(work, home);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
}

function debianArch(): string {
	return process.arch === "arm64" ? "aarch64" : "x86_64";
}
