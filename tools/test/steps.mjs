/**
 * What `npm test` does, in order. To add something to the test command, add a step here.
 *
 * A step without `report` counts as one test and its exit code decides. A vitest suite counts test by
 * test, and so does a program that writes the same JSON to the path in `KVCR_TEST_REPORT`.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../bootstrap/lib/paths.mjs";

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {readonly string[]} command a program of the workspace or in `PATH`, and its arguments
 * @property {string} [cwd] relative to the repository's root
 * @property {Record<string, string>} [env]
 * @property {"vitest" | "file"} [report] how the tests in it are told one by one
 * @property {readonly string[]} [needs] parts of the bootstrap; skipped with the part's reason when one is not there
 * @property {readonly string[]} [after] steps that must have passed; fails unrun when one has not
 * @property {number} [timeoutMs] default 180,000
 */

/** The folders of the published packages, relative to the root. */
export const packageFolders = readdirSync(join(root, "packages"))
	.map((name) => `packages/${name}`)
	.filter((folder) => existsSync(join(root, folder, "package.json")))
	.sort();

/** @type {readonly Step[]} */
export const steps = [
	{
		name: "build",
		command: ["turbo", "run", "build", "--output-logs=errors-only"],
		timeoutMs: 300_000,
	},
	{ name: "lint", command: ["biome", "check", "--error-on-warnings"] },
	{
		name: "types",
		command: [
			...["turbo", "run", "typecheck"],
			...["--continue", "--output-logs=errors-only"],
		],
		timeoutMs: 240_000,
	},
	{
		name: "packages",
		command: ["node", "tools/test/check-packages.mjs"],
		report: "file",
		after: ["build"],
	},
	...packageFolders.map((folder) => suite(folder.replace(/.*\//, ""), folder)),
	suite("tools", "tools"),
	{
		...suite("e2e", "test-e2e", "test:e2e"),
		after: ["build"],
		timeoutMs: 300_000,
	},
];

/**
 * The vitest suite of one workspace folder, run by its own script, which may do more first.
 *
 * @param {string} name
 * @param {string} cwd
 * @param {string} [script] must end in the call of vitest, which is given more arguments
 * @returns {Step}
 */
function suite(name, cwd, script = "test") {
	return {
		name,
		command: ["pnpm", "run", "--silent", script, "--allowOnly=false"],
		cwd,
		report: "vitest",
	};
}
