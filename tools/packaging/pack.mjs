/** Packing as for a release, and a look into the archives. */
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { run, tail } from "../bootstrap/lib/exec.mjs";

const TIMEOUT_MS = 60_000;

/**
 * @typedef {object} Packed
 * @property {string} name
 * @property {string} version
 * @property {string} tarball its path
 * @property {Manifest} manifest as published
 * @property {readonly string[]} files paths within the package
 * @property {number} packedBytes size of the archive
 * @property {number} unpackedBytes size of what is in it
 */

/**
 * The part of a package.json that is read here.
 *
 * @typedef {object} Manifest
 * @property {string} name
 * @property {string} version
 * @property {Record<string, string>} [scripts]
 * @property {Record<string, string>} [dependencies]
 * @property {Record<string, string>} [peerDependencies]
 * @property {Record<string, string>} [optionalDependencies]
 */

/**
 * Packs one package with pnpm, which puts the published `exports` and real version ranges into its manifest. What goes in
 * must have been built before; nothing is built here.
 *
 * @param {string} folder of the package
 * @param {string} into folder for the archive
 * @returns {Promise<Packed>}
 * @throws Error with the output of what failed
 */
export async function pack(folder, into) {
	mkdirSync(into, { recursive: true });
	const tarball = join(into, `${basename(folder)}.tgz`);
	await must(
		"pnpm",
		["pack", "--config.ignore-scripts=true", "--out", tarball],
		folder,
	);
	const manifest = JSON.parse(
		await must("tar", ["-xzOf", tarball, "package/package.json"], into),
	);
	// Size, then path: the two columns of tar's listing that are read.
	const listing = await must("tar", ["-tvzf", tarball], into);
	const entries = listing
		.trim()
		.split("\n")
		.map((line) =>
			/^-\S+\s+\S+\s+(\d+)\s+\S+\s+\S+\s+package\/(.+)$/.exec(line),
		)
		.filter((match) => match !== null);
	return {
		name: manifest.name,
		version: manifest.version,
		tarball,
		manifest,
		files: entries.map((match) => match[2] ?? ""),
		packedBytes: statSync(tarball).size,
		unpackedBytes: entries.reduce((sum, match) => sum + Number(match[1]), 0),
	};
}

/**
 * The package.json of a folder.
 *
 * @param {string} folder
 * @returns {Manifest & { private?: boolean }}
 */
export function manifestOf(folder) {
	return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {string} cwd
 */
async function must(program, args, cwd) {
	const { code, output } = await run(program, args, {
		cwd,
		timeoutMs: TIMEOUT_MS,
	});
	if (code !== 0)
		throw new Error(`${program} ${args.join(" ")} failed:\n${tail(output)}`);
	return output;
}
