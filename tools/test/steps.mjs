/**
 * What `npm test` does, in order. To add something to the test command, add a step here.
 *
 * A step without `report` counts as one test and its exit code decides. A vitest suite counts test by
 * test, and so does a program that writes the same JSON to the path in `KVCR_TEST_REPORT`.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { isCI } from "../bootstrap/bootstrap.mjs";
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

/** The package that takes a compiler to build. */
const NATIVE = "kvcr-nixl";

/** @type {readonly Step[]} */
export const steps = [
	build("build", `!${NATIVE}`),
	{
		...build(`build ${NATIVE}`, NATIVE),
		needs: ["native-tools", "cross-compiler"],
		after: ["build"],
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
	packages(
		"packages",
		packageFolders.filter((folder) => !folder.endsWith(NATIVE)),
	),
	{
		...packages(`packages ${NATIVE}`, [`packages/${NATIVE}`]),
		needs: ["native-tools", "cross-compiler"],
		after: [`build ${NATIVE}`],
	},
	installs("installs", [
		"core",
		"core and zmq",
		"core and nats",
		"core and vllm-adapter",
	]),
	{
		...installs(`installs ${NATIVE}`, ["core, nixl and zmq"]),
		needs: ["native-tools", "cross-compiler"],
		after: [`build ${NATIVE}`],
	},
	// Here, beside suites that make their own time: each Python peer keeps a core busy, which the other scenarios have deadlines for.
	{
		...suite("e2e interop", "test-e2e", "test:interop"),
		needs: ["nixl", "python-peer"],
		after: ["build", `build ${NATIVE}`],
		timeoutMs: 600_000,
	},
	...packageFolders
		.filter((folder) => !folder.endsWith(NATIVE))
		.map((folder) => suite(folder.replace(/.*\//, ""), folder)),
	native(NATIVE, "test"),
	// All of it again: hardly a test there does not come down to the addon.
	native(`${NATIVE} from prebuilds`, "test:prebuilds", { PREBUILDS_ONLY: "1" }),
	{ ...suite("tools", "tools"), after: ["build"] },
	{
		...suite("e2e", "test-e2e", "test:e2e"),
		after: ["build"],
		timeoutMs: 600_000,
	},
	{
		...suite("e2e managers", "test-e2e", "test:managers"),
		after: ["build"],
		timeoutMs: 600_000,
	},
];

/**
 * A build of the packages that a turbo filter selects.
 *
 * @param {string} name
 * @param {string} filter
 * @returns {Step}
 */
function build(name, filter) {
	return {
		name,
		command: [
			...["turbo", "run", "build"],
			...[`--filter=${filter}`, "--output-logs=errors-only"],
		],
		timeoutMs: 300_000,
	};
}

/**
 * The check of packages as they would be released.
 *
 * @param {string} name
 * @param {readonly string[]} folders
 * @returns {Step}
 */
function packages(name, folders) {
	return {
		name,
		command: ["node", "tools/test/check-packages.mjs", ...folders],
		report: "file",
		after: ["build"],
	};
}

/**
 * Packages installed from their archives, outside the workspace.
 *
 * @param {string} name
 * @param {readonly string[]} projects keys of `tools/packaging/projects.mjs`
 * @returns {Step}
 */
function installs(name, projects) {
	return {
		name,
		command: ["node", "tools/packaging/main.mjs", ...projects],
		report: "file",
		after: ["build"],
		timeoutMs: 300_000,
	};
}

/**
 * The suite of the package with the addon: with the one just built, or with the artefacts that are published. Each of
 * its scripts builds what it needs first.
 *
 * @param {string} name
 * @param {string} script
 * @param {Record<string, string>} [env]
 * @returns {Step}
 */
function native(name, script, env = {}) {
	return {
		...suite(name, `packages/${NATIVE}`, script),
		needs: ["native-tools"],
		env: { ...env, ...(isCI() ? { KVCR_REQUIRE_NIXL: "1" } : {}) },
		timeoutMs: 300_000,
	};
}

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
		timeoutMs: 420_000,
	};
}
