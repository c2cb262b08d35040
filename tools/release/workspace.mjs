/** The workspace as a release sees it: its packages, its changesets, and copies of it to try things on. */
import {
	appendFileSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	realpathSync,
	symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { manifestOf } from "../packaging/pack.mjs";
import { must } from "./programs.mjs";

/** What is published although git does not know it. */
const BUILT = ["dist", "prebuilds"];

/**
 * The published packages: the core first, as the others depend on it.
 *
 * @param {string} root
 */
export function packagesIn(root) {
	return readdirSync(join(root, "packages"))
		.map((name) => join(root, "packages", name))
		.filter((folder) => existsSync(join(folder, "package.json")))
		.map((folder) => {
			const manifest = manifestOf(folder);
			return { folder, manifest, changes: changesOf(folder, manifest.version) };
		})
		.filter(({ manifest }) => manifest.private !== true)
		.sort((a, b) => rank(a) - rank(b) || (a.folder < b.folder ? -1 : 1));
}

/**
 * Changesets that no release has used up yet.
 *
 * @param {string} root
 */
export function pendingChangesets(root) {
	return readdirSync(join(root, ".changeset")).filter(
		(file) => file.endsWith(".md") && file !== "README.md",
	);
}

/**
 * A copy of the working tree without what git ignores, but with what was built, in a temporary folder and a git repository of
 * its own. Dependencies are those of the original.
 *
 * @param {string} root
 * @returns {Promise<string>} its folder; the caller removes it
 */
export async function copyWorkspace(root) {
	const copy = mkdtempSync(join(tmpdir(), "kvcr-release-"));
	const listed = await must(
		"git",
		[
			...["ls-files", "-z", "--deduplicate"],
			...["--cached", "--others", "--exclude-standard"],
		],
		root,
	);
	for (const file of listed.split("\0")) {
		// A slash at the end: a repository of its own within this one, which git would not publish either.
		if (file === "" || file.endsWith("/") || !existsSync(join(root, file)))
			continue;
		mkdirSync(dirname(join(copy, file)), { recursive: true });
		cpSync(join(root, file), join(copy, file), { verbatimSymlinks: true });
	}
	symlinkSync(
		realpathSync(join(root, "node_modules")),
		join(copy, "node_modules"),
	);
	for (const { folder, manifest } of packagesIn(copy)) {
		const original = join(root, "packages", basename(folder));
		for (const name of BUILT)
			if (existsSync(join(original, name)))
				cpSync(join(original, name), join(folder, name), { recursive: true });
		// Where pnpm looks for the version that a `workspace:` range stands for.
		if (manifest.dependencies?.["kvcr-core"] === undefined) continue;
		mkdirSync(join(folder, "node_modules"));
		symlinkSync(
			join(copy, "packages/kvcr-core"),
			join(folder, "node_modules/kvcr-core"),
		);
	}
	await must("git", ["init", "--quiet", "--initial-branch=main"], copy);
	// Ignored as a folder, but not as the link it is here.
	appendFileSync(join(copy, ".git/info/exclude"), "node_modules\n");
	await must("git", ["add", "--all"], copy);
	await must(
		"git",
		[
			...["-c", "user.name=release", "-c", "user.email=release@localhost"],
			...["commit", "--quiet", "--no-gpg-sign", "-m", "copy"],
		],
		copy,
	);
	return copy;
}

/**
 * What the changelog of a package says about a version.
 *
 * @param {string} folder
 * @param {string} version
 */
function changesOf(folder, version) {
	const file = join(folder, "CHANGELOG.md");
	if (!existsSync(file)) return "";
	const sections = readFileSync(file, "utf8").split(/^## /m);
	const section = sections.find((text) => text.startsWith(`${version}\n`));
	return section?.slice(version.length).trim() ?? "";
}

/** @param {{ manifest: import("../packaging/pack.mjs").Manifest }} one */
function rank({ manifest }) {
	return manifest.name === "kvcr-core" ? 0 : 1;
}
