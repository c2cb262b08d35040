/**
 * `node tools/packaging/main.mjs [PROJECT...]`: packs the packages, checks the archives, and installs them with npm in
 * empty projects outside the workspace, where small programs then run as ES modules and as CommonJS. Without names,
 * all of `projects.mjs`. Writes a report to `KVCR_TEST_REPORT`.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { root } from "../bootstrap/lib/paths.mjs";
import { nativeProblems, rangeProblems, sizeProblems } from "./checks.mjs";
import { checkForBundler, compileForNode } from "./compile.mjs";
import { startNats } from "./nats.mjs";
import { pack } from "./pack.mjs";
import { makeBin, moduleSystems, Project } from "./project.mjs";
import { projects } from "./projects.mjs";
import { Report } from "./report.mjs";

const programs = join(root, "tools/packaging/programs");

const names = process.argv.slice(2);
for (const name of names)
	if (!Object.hasOwn(projects, name))
		throw new Error(
			`no project ${JSON.stringify(name)}; there are ${Object.keys(projects).join("; ")}`,
		);
const chosen = names.length > 0 ? names : Object.keys(projects);

const report = new Report();
const work = mkdtempSync(join(tmpdir(), "kvcr-install-"));
try {
	const bin = makeBin(join(work, "bin"));
	const packed = await packAll();
	for (const name of chosen) await tryProject(name, bin, packed);
} finally {
	rmSync(work, { recursive: true, force: true });
	report.write();
}
if (!report.good) process.exitCode = 1;

/**
 * Packs what the chosen projects install, and checks it.
 *
 * @returns {Promise<Map<string, import("./pack.mjs").Packed>>} by name
 */
async function packAll() {
	const wanted = new Set(
		chosen.flatMap((name) =>
			(projects[name] ?? []).flatMap(({ packages }) => packages),
		),
	);
	const packed = new Map();
	for (const name of wanted) {
		const one = await pack(
			join(root, "packages", name),
			join(work, "tarballs"),
		);
		packed.set(name, one);
		console.log(
			`${name} ${one.version}: ${one.packedBytes} bytes packed, ${one.unpackedBytes} unpacked`,
		);
		report.take(name, "keeps to its size budget", sizeProblems(one));
		report.take(
			name,
			"has native files where they belong",
			nativeProblems(one),
		);
	}
	report.take(
		chosen.join("; "),
		"ask for versions that fit together",
		rangeProblems([...packed.values()]),
	);
	return packed;
}

/**
 * @param {string} name
 * @param {string} bin
 * @param {ReadonlyMap<string, import("./pack.mjs").Packed>} packed
 */
async function tryProject(name, bin, packed) {
	const started = performance.now();
	const folder = join(work, name.replace(/\W+/g, "-"));
	const project = new Project(folder, bin);
	for (const installation of projects[name] ?? []) {
		const { packages, others = [] } = installation;
		const specs = packages.map((one) => packed.get(one)?.tarball ?? one);
		const problems = await project.install([...specs, ...others]);
		const title = `installs ${[...packages, ...others].join(", ")} with no compiler`;
		report.take(name, title, problems);
		if (problems.length > 0) break;
		report.take(
			name,
			"gets what it asked for",
			treeProblems(project, installation),
		);
		await tryPrograms(name, project, installation.programs);
	}
	rmSync(folder, { recursive: true, force: true });
	console.log(
		`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s`,
	);
}

/**
 * @param {Project} project
 * @param {import("./projects.mjs").Installation} installation
 */
function treeProblems(project, { tree, native }) {
	const installed = project.tree();
	const problems = [];
	for (const { name, path } of installed) {
		if (!tree.includes(name)) problems.push(`${name} came along`);
		if (path !== name) problems.push(`there is a second ${name}, at ${path}`);
	}
	for (const name of tree)
		if (!installed.some((one) => one.name === name))
			problems.push(`${name} is not there`);
	for (const { name, resolved, scripts } of installed) {
		if (!name.startsWith("kvcr-")) continue;
		if (!resolved.startsWith("file:"))
			problems.push(`${name} came from ${resolved}, not from its archive`);
		if (scripts) problems.push(`${name} runs a script when it is installed`);
	}
	if (!native)
		for (const file of project.nativeFiles())
			problems.push(`there is native code: ${file}`);
	return problems;
}

/**
 * @param {string} name
 * @param {Project} project
 * @param {readonly import("./projects.mjs").Program[]} list
 */
async function tryPrograms(name, project, list) {
	const sources = ["two-workers", ...list.map(({ file }) => file)];
	project.addSources(sources.map((file) => join(programs, `${file}.ts`)));
	/** @param {keyof typeof moduleSystems} system */
	const files = (system) =>
		sources.map((file) => join(project.folder, system, `${file}.ts`));
	report.take(
		name,
		`types check with moduleResolution node16 (${list.map(({ file }) => file)})`,
		compileForNode([...files("esm"), ...files("cjs")]),
	);
	report.take(
		name,
		`types check with moduleResolution bundler (${list.map(({ file }) => file)})`,
		checkForBundler(files("esm")),
	);
	for (const program of list) await tryProgram(name, project, program);
}

/**
 * @param {string} name
 * @param {Project} project
 * @param {import("./projects.mjs").Program} program
 */
async function tryProgram(name, project, { file, needs, server }) {
	/** @param {string} system */
	const title = (system) => `${basename(file)} runs as ${system}`;
	if (needs !== undefined && !existsSync(process.env[needs] ?? "")) {
		for (const system of Object.keys(moduleSystems))
			report.skip(name, title(system), `${needs} names nothing that is here`);
		return;
	}
	const nats = server === "nats" ? await startNats() : undefined;
	try {
		for (const system of Object.keys(moduleSystems))
			report.take(
				name,
				title(system),
				await project.run(`${system}/${file}.js`, { NATS_URL: nats?.url }),
			);
	} finally {
		await nats?.stop();
	}
}
