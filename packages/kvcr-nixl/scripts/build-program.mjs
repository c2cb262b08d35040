/** Builds the small programs in `native/` that benchmarks and tests run, when they are not there yet. Not part of the package. */
import { execFileSync } from "node:child_process";
import {
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	renameSync,
	rmSync,
	statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const packageDir = dirname(dirname(fileURLToPath(import.meta.url)));
const nativeDir = join(packageDir, "..", "..", "native");
const buildDir = join(packageDir, "build");

/**
 * The path of the program. Throws where there is no compiler.
 *
 * @param {"floor/floor" | "control/plain"} name its source below `native/`, without the ending
 * @returns {string}
 */
export function nativeProgram(name) {
	const source = join(nativeDir, `${name}.cc`);
	const program = join(buildDir, name.replace(/.*\//, ""));
	const newest = Math.max(
		...[source, ...headers()].map((file) => statSync(file).mtimeMs),
	);
	if (existsSync(program) && statSync(program).mtimeMs >= newest)
		return program;
	mkdirSync(buildDir, { recursive: true });
	const work = mkdtempSync(join(buildDir, "program-"));
	try {
		const fresh = join(work, "program");
		execFileSync(
			"g++",
			["-O2", "-std=gnu++17", "-o", fresh, source, "-ldl", "-lpthread"],
			{ stdio: "inherit" },
		);
		renameSync(fresh, program);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
	return program;
}

/** The headers that programs share with the addon. */
function headers() {
	const folder = join(nativeDir, "src");
	return readdirSync(folder)
		.filter((name) => name.endsWith(".h"))
		.map((name) => join(folder, name));
}
