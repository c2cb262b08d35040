/**
 * `node tools/test/check-packages.mjs FOLDER...`: packs packages as they would be released and checks the
 * archives: what is in them, their `exports` (publint), and that their types resolve in Node's two module
 * systems and in bundlers (are the types wrong), and that what was built loads in both. Writes a report
 * with four tests per package to `KVCR_TEST_REPORT`.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { run, tail } from "../bootstrap/lib/exec.mjs";
import { cache, root } from "../bootstrap/lib/paths.mjs";

const TOOL_TIMEOUT_MS = 60_000;

/** Run in a package's folder: loads every entry point both ways and compares what they export. */
const LOAD = `
	const { name, exports } = require("./package.json");
	(async () => {
		for (const path of Object.keys(exports)) {
			if (path === "./package.json") continue;
			const entry = name + path.slice(1);
			const names = (module) => Object.keys(module).filter((key) => key !== "default" && key !== "module.exports" && key !== "__esModule").sort().join();
			const [cjs, esm] = [names(require(entry)), names(await import(entry))];
			if (cjs !== esm) throw new Error(entry + " exports " + cjs + " as CommonJS and " + esm + " as ESM");
		}
	})();`;

const work = join(cache, "pack");
mkdirSync(work, { recursive: true });

/** @type {import("./tally.mjs").FileReport[]} */
const testResults = [];
for (const folder of process.argv.slice(2))
	testResults.push(await check(folder));

const reportFile = process.env.KVCR_TEST_REPORT;
if (reportFile !== undefined)
	writeFileSync(reportFile, JSON.stringify({ testResults }));
if (testResults.some(({ status }) => status !== "passed")) process.exitCode = 1;

/**
 * @param {string} folder
 * @returns {Promise<import("./tally.mjs").FileReport>}
 */
async function check(folder) {
	const name = basename(folder);
	const tarball = join(work, `${name}.tgz`);
	/** @type {import("./tally.mjs").FileReport["assertionResults"]} */
	const assertionResults = [];
	/** @param {string} title @param {string[]} problems */
	const take = (title, problems) => {
		for (const problem of problems)
			console.log(`${name}: ${title}: ${problem}`);
		assertionResults.push({
			title: `${name}: ${title}`,
			status: problems.length === 0 ? "passed" : "failed",
		});
	};
	const packed = await tool("pnpm", ["pack", "--out", tarball], folder);
	if (packed.length > 0) take("packs", packed);
	else {
		take("has what it should in its archive", await contents(tarball));
		take("publint", await lintExports(tarball));
		take(
			"are the types wrong",
			await tool(
				"attw",
				// The old resolution without `exports` cannot see subpaths; nothing that runs on Node 20 needs it.
				["--profile", "node16", "--format", "ascii", "--no-emoji", tarball],
				".",
			),
		);
	}
	take(
		"loads as ESM and as CommonJS",
		await tool("node", ["-e", LOAD], folder),
	);
	const passed = assertionResults.every(({ status }) => status === "passed");
	return { name, status: passed ? "passed" : "failed", assertionResults };
}

/**
 * @param {string} tarball
 * @returns {Promise<string[]>}
 */
async function contents(tarball) {
	const list = await run("tar", ["-tzf", tarball], {
		timeoutMs: TOOL_TIMEOUT_MS,
	});
	const manifest = await run(
		"tar",
		["-xzOf", tarball, "package/package.json"],
		{
			timeoutMs: TOOL_TIMEOUT_MS,
		},
	);
	if (list.code !== 0 || manifest.code !== 0)
		return [`cannot be read: ${tail(list.output)}${tail(manifest.output)}`];
	const files = list.output.trim().split("\n");
	const problems = ["README.md", "LICENSE"]
		.filter((file) => !files.includes(`package/${file}`))
		.map((file) => `lacks ${file}`);
	for (const word of ["workspace:", "catalog:", "kvcr-source"])
		if (manifest.output.includes(word))
			problems.push(
				`package.json mentions ${word}, which means nothing outside this repository`,
			);
	for (const file of files)
		if (/\.tsbuildinfo$|\.test\.|(^|\/)\.(cache|turbo)\//.test(file))
			problems.push(`carries ${file}`);
	return problems;
}

/**
 * @param {string} tarball
 * @returns {Promise<string[]>}
 */
async function lintExports(tarball) {
	const bytes = readFileSync(tarball);
	const { messages, pkg } = await publint({
		pack: {
			tarball: bytes.buffer.slice(
				bytes.byteOffset,
				bytes.byteOffset + bytes.byteLength,
			),
		},
		strict: true,
		level: "warning",
	});
	return messages.map(
		(message) => formatMessage(message, pkg, { color: false }) ?? message.code,
	);
}

/**
 * The last lines of a program's output when it failed; nothing when it went well.
 *
 * @param {string} program
 * @param {string[]} args
 * @param {string} cwd
 * @returns {Promise<string[]>}
 */
async function tool(program, args, cwd) {
	const { code, output } = await run(program, args, {
		cwd: join(root, cwd),
		timeoutMs: TOOL_TIMEOUT_MS,
	});
	return code === 0 ? [] : [tail(output, 40)];
}
