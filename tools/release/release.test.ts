import { execFileSync } from "node:child_process";
import {
	chmodSync,
	existsSync,
	mkdtempSync,
	readFileSync,
	rmSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { root } from "../bootstrap/lib/paths.mjs";
import { dryRun } from "./release.mjs";
import { copyWorkspace, packagesIn } from "./workspace.mjs";

const folders: string[] = [];
const path = process.env.PATH;

afterEach(() => {
	process.env.PATH = path;
	for (const folder of folders.splice(0))
		rmSync(folder, { recursive: true, force: true });
});

/** Puts an npm and a yarn first in PATH that only write down what they were asked. */
function watchNpm(): () => string {
	const bin = mkdtempSync(join(tmpdir(), "kvcr-npm-"));
	folders.push(bin);
	const log = join(bin, "calls");
	for (const name of ["npm", "yarn"]) {
		writeFileSync(
			join(bin, name),
			`#!/bin/sh\necho "$0 $*" >> '${log}'\nexit 1\n`,
		);
		chmodSync(join(bin, name), 0o755);
	}
	process.env.PATH = bin + delimiter + path;
	return () => (existsSync(log) ? readFileSync(log, "utf8") : "");
}

function git(folder: string, ...args: string[]): string {
	return execFileSync("git", args, { cwd: folder, encoding: "utf8" });
}

/** Everything a release could change in a repository. */
function stateOf(folder: string): Record<string, string> {
	return {
		head: git(folder, "rev-parse", "HEAD"),
		tags: git(folder, "tag", "--list"),
		status: git(folder, "status", "--porcelain"),
		index: git(folder, "ls-files", "--stage"),
	};
}

test("a dry run gives the packages of a changeset new versions and changelogs, and touches nothing", async () => {
	const repository = await copyWorkspace(root);
	folders.push(repository);
	writeFileSync(
		join(repository, ".changeset/brave-blocks-move.md"),
		'---\n"kvcr-core": minor\n"kvcr-transport-zmq": patch\n---\n\nBlocks move by themselves.\n',
	);
	const before = stateOf(repository);
	const versions = new Map(
		packagesIn(repository).map(({ manifest }) => [
			manifest.name,
			manifest.version,
		]),
	);
	const calls = watchNpm();
	const lines: string[] = [];
	const packed = await dryRun(repository, {
		checks: false,
		print: (line) => lines.push(line),
	});

	expect(packed.map(({ name }) => name)[0]).toBe("kvcr-core");
	expect(packed).toHaveLength(versions.size);
	const core = packed[0]?.version ?? "";
	const [major, minor] = (versions.get("kvcr-core") ?? "").split(".");
	expect(core).toBe(`${major}.${Number(minor) + 1}.0`);
	for (const { name, version, manifest, files } of packed) {
		// A caret range of 0.x leaves the next minor, so every dependent goes along.
		expect({ name, moved: version !== versions.get(name) }).toEqual({
			name,
			moved: true,
		});
		if (name !== "kvcr-core")
			expect(manifest.dependencies?.["kvcr-core"]).toBe(`^${core}`);
		expect(files).toContain("dist/index.js");
		expect(lines.join("\n")).toContain(`${name}@${version} would be published`);
	}
	expect(lines.join("\n")).toContain("Blocks move by themselves.");
	expect(stateOf(repository)).toEqual(before);
	expect(calls()).toBe("");
}, 120_000);

test("a dry run without changesets keeps the versions, whatever else lies in the working tree", async () => {
	const repository = await copyWorkspace(root);
	folders.push(repository);
	git(repository, "init", "--quiet", "scratch/nested");
	symlinkSync("nowhere", join(repository, "scratch/dangling"));
	rmSync(join(repository, "docs"), { recursive: true });
	git(repository, "rm", "--quiet", "--cached", "CONTRIBUTING.md");
	for (const file of git(repository, "ls-files", ".changeset/*.md").split("\n"))
		if (file !== "" && !file.endsWith("README.md"))
			rmSync(join(repository, file));
	const calls = watchNpm();
	const packed = await dryRun(repository, { checks: false, print: () => {} });
	expect(packed.map(({ name, version }) => [name, version])).toEqual(
		packagesIn(repository).map(({ manifest }) => [
			manifest.name,
			manifest.version,
		]),
	);
	expect(calls()).toBe("");
}, 120_000);
