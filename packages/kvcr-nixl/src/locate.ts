/** Finding NIXL's C library on this machine. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { InvalidArgumentError } from "kvcr-core";
import { NixlNotFoundError } from "./errors.js";

/** Name of the library, as the loader's own search path knows it. */
export const LIBRARY_NAME = "libnixl_capi.so";

/** Where the library lies below the folder that a wheel is installed or unpacked into, newest CUDA flavor last. */
const INSIDE_WHEEL = ["nixl_cu12", "nixl_cu13"].map((flavor) =>
	join(`.${flavor}.mesonpy.libs`, LIBRARY_NAME),
);

/** Where to look, in order of preference. */
export interface Candidates {
	/** Paths to try; all but the first are skipped silently when nothing is there. */
	readonly paths: readonly string[];
	/** True when the caller or the environment named the path: then there is no second choice. */
	readonly explicit: boolean;
	/** For the error message: every place, named for humans. */
	readonly lookedIn: readonly string[];
}

/**
 * Where NIXL may be: the `option`, `KVCR_NIXL_LIBRARY`, Python's package folders, the loader's own path. A folder that a
 * wheel was unpacked into is accepted in place of the library in it.
 * @throws NixlNotFoundError when a path was named and nothing is there.
 */
export function libraryCandidates(
	operation: string,
	option: string | undefined,
	env: NodeJS.ProcessEnv = process.env,
): Candidates {
	if (option !== undefined) {
		if (
			typeof option !== "string" ||
			option.length === 0 ||
			option.includes("\0")
		) {
			throw new InvalidArgumentError(
				operation,
				"libraryPath",
				option,
				"a path without NUL, or absent",
			);
		}
		return named(operation, option, `option libraryPath (${option})`);
	}
	const fromEnv = env.KVCR_NIXL_LIBRARY;
	if (fromEnv !== undefined && fromEnv !== "")
		return named(operation, fromEnv, `KVCR_NIXL_LIBRARY (${fromEnv})`);
	const folders = pythonFolders(env);
	const found = folders
		.flatMap((folder) => INSIDE_WHEEL.map((inside) => join(folder, inside)))
		.filter(isFile);
	return {
		paths: [...found, LIBRARY_NAME],
		explicit: false,
		lookedIn: [
			"option libraryPath (not set)",
			"KVCR_NIXL_LIBRARY (not set)",
			`nixl_cu12 and nixl_cu13 in Python's package folders (${folders.join(", ") || "none exist"})`,
			`the loader's own search path (${LIBRARY_NAME})`,
		],
	};
}

function named(operation: string, path: string, place: string): Candidates {
	const resolved = insideWheel(path);
	// A bare name is the loader's to find.
	if (path.includes("/") && !isFile(resolved))
		throw new NixlNotFoundError(operation, [
			existsSync(resolved) ? `${place}, which is no file` : place,
		]);
	return { paths: [resolved], explicit: true, lookedIn: [place] };
}

/** Whether a regular file is there: opening a pipe, say, would wait for ever. */
function isFile(path: string): boolean {
	return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function insideWheel(path: string): string {
	if (!existsSync(path) || !statSync(path).isDirectory()) return path;
	const candidates = INSIDE_WHEEL.map((inside) => join(path, inside));
	return (
		candidates.find((candidate) => existsSync(candidate)) ??
		(candidates[0] as string)
	);
}

/** The folders Python packages live in: those of the active environment first. Found without starting Python. */
function pythonFolders(env: NodeJS.ProcessEnv): string[] {
	const prefixes = [
		env.VIRTUAL_ENV,
		env.CONDA_PREFIX,
		join(homedir(), ".local"),
		"/usr/local",
		"/usr",
	].filter((prefix): prefix is string => Boolean(prefix));
	const folders = (env.PYTHONPATH ?? "").split(delimiter).filter(Boolean);
	for (const prefix of prefixes) {
		for (const lib of ["lib", "lib64"]) {
			for (const version of list(join(prefix, lib))) {
				if (!/^python3(\.\d+)?$/.test(version)) continue;
				for (const kind of ["site-packages", "dist-packages"])
					folders.push(join(prefix, lib, version, kind));
			}
		}
	}
	return [...new Set(folders)].filter((folder) => existsSync(folder));
}

function list(folder: string): string[] {
	try {
		return readdirSync(folder).sort().reverse();
	} catch {
		return [];
	}
}
