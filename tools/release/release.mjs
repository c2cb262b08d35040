/**
 * The release, step by step. It can be run again after it broke off: versions are committed before anything is published,
 * and what the registry has already is not published again.
 *
 * Versions and changelogs come from Changesets: it knows pnpm's workspaces and `workspace:` ranges, bumps dependents
 * whose range a new version leaves, and keeps the reasons next to the changes they belong to. Its 2.x line is used because
 * 3.x needs a newer Node than the oldest supported here. What is published is the archives that were checked, with npm.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import {
	nativeProblems,
	rangeProblems,
	sizeProblems,
} from "../packaging/checks.mjs";
import { pack } from "../packaging/pack.mjs";
import { must, succeeds } from "./programs.mjs";
import { copyWorkspace, packagesIn, pendingChangesets } from "./workspace.mjs";

/** @typedef {(line: string) => void} Print */

const MINUTE_MS = 60_000;

/**
 * Releases what is on the main branch.
 *
 * @param {string} root
 * @param {{ print: Print }} options
 * @throws Error that says what went wrong and what to do
 */
export async function release(root, { print }) {
	await requireReady(root);
	if (await version(root, print)) await commitVersions(root, print);
	await build(root, print);
	print("checks: npm test");
	await must("npm", ["test"], root, {
		timeoutMs: 30 * MINUTE_MS,
		env: { CI: "true" },
		show: true,
	});
	const packed = await packAll(root, join(root, ".cache/release"), print);
	for (const one of packed) {
		const id = `${one.name}@${one.version}`;
		if (await succeeds("npm", ["view", id, "version"], root))
			print(`${id} is on the registry already`);
		else {
			await must("npm", ["publish", one.tarball, "--access", "public"], root, {
				timeoutMs: 5 * MINUTE_MS,
				show: true,
			});
			print(`${id} published`);
		}
	}
	await must("pnpm", ["exec", "changeset", "tag"], root);
	print("done; now: git push --follow-tags");
}

/**
 * Does on a copy what a release would do, short of publishing. The repository is only read, and built in.
 *
 * @param {string} root
 * @param {{ checks: boolean, print: Print }} options `checks: false` leaves out the build and the tests
 * @returns {Promise<import("../packaging/pack.mjs").Packed[]>} what would be published; the archives are gone
 * @throws Error that says what went wrong
 */
export async function dryRun(root, { checks, print }) {
	if (checks) {
		await build(root, print);
		print("checks: npm test");
		await must("npm", ["test"], root, {
			timeoutMs: 30 * MINUTE_MS,
			env: { CI: "true" },
			show: true,
		});
	}
	const copy = await copyWorkspace(root);
	try {
		await version(copy, print);
		const packed = await packAll(copy, join(copy, ".cache/release"), print);
		for (const { name, version } of packed)
			print(`${name}@${version} would be published, unless it is already`);
		print("dry run: nothing was published, committed or tagged");
		return packed;
	} finally {
		rmSync(copy, { recursive: true, force: true });
	}
}

/** @param {string} root */
async function requireReady(root) {
	const changed = await must("git", ["status", "--porcelain"], root);
	if (changed !== "")
		throw new Error(
			`there are uncommitted changes; commit them first:\n${changed}`,
		);
	const branch = await must("git", ["branch", "--show-current"], root);
	if (branch.trim() !== "main")
		throw new Error(`releases are made from main, not from ${branch.trim()}`);
	if (!(await succeeds("npm", ["whoami"], root)))
		throw new Error("npm does not know who publishes; run npm login first");
}

/**
 * Turns the changesets into versions and changelogs.
 *
 * @param {string} root
 * @param {Print} print
 * @returns {Promise<boolean>} whether there were any
 */
async function version(root, print) {
	const pending = pendingChangesets(root);
	if (pending.length === 0) {
		print("versions: no changesets, they stay as they are");
		return false;
	}
	await must("pnpm", ["exec", "changeset", "version"], root);
	print(`versions: ${pending.length} changesets applied`);
	for (const { manifest, changes } of packagesIn(root))
		print(`${manifest.name} ${manifest.version}:\n${changes}`);
	return true;
}

/**
 * @param {string} root
 * @param {Print} print
 */
async function commitVersions(root, print) {
	const list = packagesIn(root).map(
		({ manifest }) => `${manifest.name} ${manifest.version}`,
	);
	await must("git", ["add", "--all", ".changeset", "packages"], root);
	await must("git", ["commit", "-m", `Release\n\n${list.join("\n")}`], root);
	print("versions: committed");
}

/**
 * Builds every package, and every prebuilt artefact of the native one: without its cross compiler a release fails.
 *
 * @param {string} root
 * @param {Print} print
 */
async function build(root, print) {
	print("build");
	await must("pnpm", ["exec", "turbo", "run", "build", "--force"], root, {
		timeoutMs: 15 * MINUTE_MS,
	});
	await must(
		"node",
		["scripts/build-native.mjs", "--all"],
		join(root, "packages/kvcr-nixl"),
		{ timeoutMs: 15 * MINUTE_MS },
	);
}

/**
 * Packs all packages, the core first, and checks the archives.
 *
 * @param {string} root
 * @param {string} into
 * @param {Print} print
 */
async function packAll(root, into, print) {
	const packed = [];
	const problems = [];
	for (const { folder } of packagesIn(root)) {
		const one = await pack(folder, into);
		packed.push(one);
		for (const problem of [...sizeProblems(one), ...nativeProblems(one)])
			problems.push(`${one.name} ${problem}`);
		print(
			`packed: ${one.name} ${one.version}, ${one.files.length} files, ${one.packedBytes} bytes`,
		);
	}
	problems.push(...rangeProblems(packed));
	if (problems.length > 0)
		throw new Error(`not fit to be published:\n${problems.join("\n")}`);
	return packed;
}
