/**
 * Debian packages, from whatever sources the machine's apt is set up with.
 *
 * Where one file of a package is all that is wanted, the package is unpacked below `.cache/`: that
 * needs no root and leaves the system alone. Compilers are installed, where there is root to do so.
 */
import {
	mkdirSync,
	mkdtempSync,
	readdirSync,
	renameSync,
	rmSync,
} from "node:fs";
import { join } from "node:path";
import { run, tail, which } from "./exec.mjs";
import { BootstrapError } from "./part.mjs";

/** Longest an update of the lists or one download may take, in milliseconds. */
const APT_TIMEOUT_MS = 120_000;

/** Longest an installation may take, in milliseconds. */
const INSTALL_TIMEOUT_MS = 240_000;

/**
 * Whether this machine has what {@link unpackDebian} needs.
 *
 * @param {NodeJS.ProcessEnv} env
 */
export function hasApt(env) {
	return (
		which("apt-get", env) !== undefined && which("dpkg-deb", env) !== undefined
	);
}

/**
 * Downloads packages and unpacks them into `target`, which appears only when complete.
 *
 * @param {readonly string[]} names the packages; their dependencies are not fetched
 * @param {string} target
 * @param {import("./part.mjs").Context} context
 */
export async function unpackDebian(names, target, { cache, env, log }) {
	const apt = join(cache, "apt");
	mkdirSync(join(apt, "lists/partial"), { recursive: true });
	mkdirSync(join(apt, "archives/partial"), { recursive: true });
	const work = mkdtempSync(join(apt, "work-"));
	/** @param {string[]} args */
	const aptGet = (...args) =>
		run(
			"apt-get",
			[
				"-q",
				...["-o", `Dir::State::lists=${join(apt, "lists")}`],
				...["-o", `Dir::Cache=${apt}`],
				// Files below a home folder are out of reach for apt's own user.
				...["-o", "APT::Sandbox::User=root"],
				...["-o", "Debug::NoLocking=1"],
				...["-o", "Acquire::Retries=2"],
				...args,
			],
			{ cwd: work, env, timeoutMs: APT_TIMEOUT_MS },
		);
	try {
		const wanted = names.join(", ");
		let download = await aptGet("download", ...names);
		if (download.code !== 0) {
			log(`fetching Debian's package lists for ${wanted}`);
			const update = await aptGet("update");
			if (update.code !== 0)
				throw new BootstrapError(
					`apt-get could not fetch its package lists:\n${tail(update.output)}`,
				);
			download = await aptGet("download", ...names);
		}
		const archives = readdirSync(work).filter((file) => file.endsWith(".deb"));
		if (download.code !== 0 || archives.length < names.length)
			throw new BootstrapError(
				`apt-get could not download ${wanted}:\n${tail(download.output)}`,
			);
		for (const archive of archives) {
			const unpack = await run(
				"dpkg-deb",
				["-x", archive, join(work, "tree")],
				{ cwd: work, env, timeoutMs: APT_TIMEOUT_MS },
			);
			if (unpack.code !== 0)
				throw new BootstrapError(
					`dpkg-deb could not unpack ${archive}:\n${tail(unpack.output)}`,
				);
		}
		rmSync(target, { recursive: true, force: true });
		renameSync(join(work, "tree"), target);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
}

/**
 * Whether {@link installDebian} can do anything here: it takes apt, and root.
 *
 * @param {NodeJS.ProcessEnv} env
 */
export function canInstallDebian(env) {
	return which("apt-get", env) !== undefined && process.getuid?.() === 0;
}

/**
 * Installs packages into the system.
 *
 * @param {readonly string[]} packages
 * @param {NodeJS.ProcessEnv} env
 */
export async function installDebian(packages, env) {
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
