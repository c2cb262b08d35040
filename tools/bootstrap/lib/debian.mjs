/**
 * Debian packages without touching the system: package lists and archives live below `.cache/`, and
 * a package is unpacked there. Needs no root. Sources are whatever the machine's apt is set up with.
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

/** Whether this machine has what {@link unpackDebian} needs. */
export function hasApt() {
	return which("apt-get") !== undefined && which("dpkg-deb") !== undefined;
}

/**
 * Downloads one package and unpacks it into `target`, which appears only when complete.
 *
 * @param {string} name the package; its dependencies are not fetched
 * @param {string} target
 * @param {import("./part.mjs").Context} context
 */
export async function unpackDebian(name, target, { cache, env, log }) {
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
		let download = await aptGet("download", name);
		if (download.code !== 0) {
			log(`fetching Debian's package lists for ${name}`);
			const update = await aptGet("update");
			if (update.code !== 0)
				throw new BootstrapError(
					`apt-get could not fetch its package lists:\n${tail(update.output)}`,
				);
			download = await aptGet("download", name);
		}
		const archive = readdirSync(work).find((file) => file.endsWith(".deb"));
		if (download.code !== 0 || archive === undefined)
			throw new BootstrapError(
				`apt-get could not download ${name}:\n${tail(download.output)}`,
			);
		const unpack = await run("dpkg-deb", ["-x", archive, join(work, "tree")], {
			cwd: work,
			env,
			timeoutMs: APT_TIMEOUT_MS,
		});
		if (unpack.code !== 0)
			throw new BootstrapError(
				`dpkg-deb could not unpack ${archive}:\n${tail(unpack.output)}`,
			);
		rmSync(target, { recursive: true, force: true });
		renameSync(join(work, "tree"), target);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
}
