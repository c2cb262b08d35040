/** Finding NIXL's C library on this machine. */
import { readdirSync, statSync } from "node:fs";
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
		.filter((path) => look(path) === "file");
	return {
		paths: [...found, LIBRARY_NAME],
		explicit: false,
		lookedIn: [
			"option libraryPath (not set)",
			"KVCR_NIXL_LIBRARY (not set)",
			`nixl_cu12 and nixl_cu13 in Python's package folders (${folders.map(withReason).join(", ") || "none exist"})`,
			`the loader's own search path (${LIBRARY_NAME})`,
		],
	};
}

/** What is at a path, or the system's reason for not telling, such as `EACCES`. */
type Sight = "file" | "folder" | "something else" | "nothing" | { why: string };

function named(operation: string, path: string, place: string): Candidates {
	const resolved = insideWheel(path);
	// A bare name is the loader's to find.
	if (path.includes("/")) {
		const sight = look(resolved);
		if (typeof sight === "object")
			throw new NixlNotFoundError(operation, [`${place}: ${sight.why}`]);
		if (sight === "nothing") throw new NixlNotFoundError(operation, [place]);
		// Opening a pipe, say, would wait for ever.
		if (sight !== "file")
			throw new NixlNotFoundError(operation, [`${place}, which is no file`]);
	}
	return { paths: [resolved], explicit: true, lookedIn: [place] };
}

function look(path: string): Sight {
	try {
		const entry = statSync(path, { throwIfNoEntry: false });
		if (entry === undefined) return "nothing";
		if (entry.isFile()) return "file";
		return entry.isDirectory() ? "folder" : "something else";
	} catch (error) {
		// A folder that may not be entered, links in a circle, a name too long: no reason to stop looking elsewhere.
		return { why: (error as NodeJS.ErrnoException).code ?? String(error) };
	}
}

function insideWheel(path: string): string {
	if (look(path) !== "folder") return path;
	const candidates = INSIDE_WHEEL.map((inside) => join(path, inside));
	return (
		candidates.find((candidate) => look(candidate) !== "nothing") ??
		(candidates[0] as string)
	);
}

/** A folder for the message, with the reason why it is of no use where there is one. */
function withReason(folder: string): string {
	const inside = look(join(folder, INSIDE_WHEEL[0] as string));
	return typeof inside === "object" ? `${folder}: ${inside.why}` : folder;
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
			const inside = join(prefix, lib);
			const versions = list(inside);
			if (versions === undefined) folders.push(inside);
			for (const version of versions ?? []) {
				if (!/^python3(\.\d+)?$/.test(version)) continue;
				for (const kind of ["site-packages", "dist-packages"])
					folders.push(join(prefix, lib, version, kind));
			}
		}
	}
	return [...new Set(folders)].filter((folder) => look(folder) !== "nothing");
}

/** `undefined` for a folder that is there and cannot be read. */
function list(folder: string): string[] | undefined {
	try {
		return readdirSync(folder).sort().reverse();
	} catch {
		return look(folder) === "nothing" ? [] : undefined;
	}
}
