/** Builds the benchmark's floor program from `native/floor`, when it is not there yet. Not part of the package. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const packageDir = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(packageDir, "..", "..", "native", "floor", "floor.cc");

/**
 * The path of the program.
 *
 * @returns {Promise<string>}
 */
export async function floorProgram() {
	const program = join(packageDir, "build", "floor");
	if (
		!existsSync(program) ||
		statSync(program).mtimeMs < statSync(source).mtimeMs
	) {
		mkdirSync(dirname(program), { recursive: true });
		execFileSync(
			"g++",
			["-O2", "-std=gnu++17", "-o", program, source, "-ldl", "-lpthread"],
			{ stdio: "inherit" },
		);
	}
	return program;
}
