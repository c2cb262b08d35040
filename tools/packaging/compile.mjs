/**
 * Type checks and compiles the programs of a project against what is installed there. One TypeScript for all projects:
 * its own libraries are parsed once, which is most of the work.
 */
import { join, sep } from "node:path";
import ts from "typescript";
import { root } from "../bootstrap/lib/paths.mjs";

/** @type {ts.CompilerOptions} */
const COMMON = {
	target: ts.ScriptTarget.ES2022,
	lib: ["lib.es2023.d.ts"],
	strict: true,
	exactOptionalPropertyTypes: true,
	noUncheckedIndexedAccess: true,
	// Node's own types; a project would install them, and they are the same everywhere.
	types: ["node"],
	typeRoots: [join(root, "node_modules/@types")],
	// The types that packages ship are what is tested here.
	skipLibCheck: false,
};

/** Types of others, whose mistakes are theirs. */
const FOREIGN = /\/node_modules\/(?!kvcr-)/;

/** @type {Map<string, ts.SourceFile | undefined>} */
const shared = new Map();

/**
 * Checks and compiles for Node: each file becomes an ES module or CommonJS, as the package.json beside it says.
 *
 * @param {readonly string[]} files
 * @returns {string[]} problems
 */
export function compileForNode(files) {
	return compile(files, {
		...COMMON,
		module: ts.ModuleKind.Node16,
		moduleResolution: ts.ModuleResolutionKind.Node16,
	});
}

/**
 * Checks as an application would that is bundled.
 *
 * @param {readonly string[]} files
 * @returns {string[]} problems
 */
export function checkForBundler(files) {
	return compile(files, {
		...COMMON,
		module: ts.ModuleKind.ESNext,
		moduleResolution: ts.ModuleResolutionKind.Bundler,
		noEmit: true,
	});
}

/**
 * @param {readonly string[]} files
 * @param {ts.CompilerOptions} options
 */
function compile(files, options) {
	const host = ts.createCompilerHost(options);
	const read = host.getSourceFile.bind(host);
	host.getSourceFile = (file, how, ...rest) => {
		if (
			!file.includes(`${sep}typescript${sep}lib${sep}`) &&
			!file.includes("@types")
		)
			return read(file, how, ...rest);
		const key = `${JSON.stringify(how)} ${file}`;
		if (!shared.has(key)) shared.set(key, read(file, how, ...rest));
		return shared.get(key);
	};
	const program = ts.createProgram(files, options, host);
	const found = [
		...ts.getPreEmitDiagnostics(program),
		...program.emit().diagnostics,
	];
	return found
		.filter(({ file }) => !FOREIGN.test(file?.fileName ?? ""))
		.map((diagnostic) => ts.formatDiagnostic(diagnostic, host).trim());
}
