/**
 * `npm run bench [-- NAME...] [-- --json FILE]`: runs benches one after the other, each in a process of its own, and prints their
 * tables. Without names: the benches of transfers and of the cache. Fails when a bench fails or a target is missed.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { userPath } from "../lib/user-path.js";
import type { JudgedFigure } from "./lib/figures.js";

/** A bench: a program that prints a table and takes `--json FILE`. */
interface Bench {
	readonly file: string;
	readonly args?: readonly string[];
	/** Reads package sources instead of what was built: for benches of parts that no package exports. */
	readonly sources?: boolean;
	/** Why it cannot run here, if it cannot. */
	readonly missing?: () => string | undefined;
}

const needsNixl = (): string | undefined =>
	existsSync(process.env.KVCR_NIXL_LIBRARY ?? "")
		? undefined
		: "NIXL's library is not here (the bootstrap says why)";

const BENCHES: Readonly<Record<string, Bench>> = {
	pull: { file: "pull/main.ts", args: ["--agent", "portable"] },
	"pull-nixl": {
		file: "pull/main.ts",
		args: ["--agent", "nixl"],
		missing: needsNixl,
	},
	flood: { file: "flood/main.ts" },
	integrity: { file: "integrity/main.ts", sources: true },
	nixl: {
		file: "../../packages/kvcr-nixl/bench/main.ts",
		sources: true,
		missing: needsNixl,
	},
	cache: { file: "cache.ts", sources: true },
	policies: { file: "policies.ts", sources: true },
	"reverse-map": { file: "reverse-map.ts", sources: true },
	"kv-events": { file: "kv-events.ts", sources: true },
};
const DEFAULT = ["pull", "nixl", "pull-nixl", "cache"];

const USAGE = `npm run bench [-- NAME...] [-- --json FILE]
benches: ${Object.keys(BENCHES).join(", ")}; without names ${DEFAULT.join(", ")}`;

const { json, names } = await readArguments();
const folder = await mkdtemp(join(tmpdir(), "kvcr-bench-"));
const all: JudgedFigure[] = [];
try {
	for (const name of names) {
		const bench = BENCHES[name] as Bench;
		const missing = bench.missing?.();
		if (missing !== undefined) {
			console.log(`\n${name}: skipped, ${missing}`);
			continue;
		}
		const file = join(folder, `${name}.json`);
		const code = await run(bench, file);
		if (existsSync(file))
			all.push(...(JSON.parse(readFileSync(file, "utf8")) as JudgedFigure[]));
		if (code !== 0) {
			console.error(`\n${name}: ended with code ${code}`);
			process.exitCode = 1;
		}
	}
	if (json !== undefined)
		await writeFile(json, `${JSON.stringify(all, null, "\t")}\n`);
	const missed = all.filter((figure) => figure.holds === false);
	if (missed.length > 0) process.exitCode = 1;
	console.log(`\n${all.length} figures, ${missed.length} targets missed`);
} finally {
	await rm(folder, { recursive: true, force: true });
}

/** Ends the process when there is nothing to run. */
async function readArguments() {
	try {
		const { values, positionals } = parseArgs({
			allowPositionals: true,
			options: {
				json: { type: "string" },
				help: { type: "boolean", short: "h" },
			},
		});
		if (values.help === true) {
			console.log(USAGE);
			process.exit(0);
		}
		for (const name of positionals)
			if (!Object.hasOwn(BENCHES, name))
				throw new Error(`no bench ${JSON.stringify(name)}`);
		const json = values.json === undefined ? undefined : userPath(values.json);
		// Found out before the benches have run, not after.
		if (json !== undefined) await (await open(json, "a")).close();
		return { json, names: positionals.length > 0 ? positionals : DEFAULT };
	} catch (error) {
		console.error(
			`bench: ${(error as Error).message.split(". ")[0]}\n\n${USAGE}`,
		);
		process.exit(2);
	}
}

function run(
	{ file, args = [], sources = false }: Bench,
	json: string,
): Promise<number> {
	const program = fileURLToPath(new URL(file, import.meta.url));
	const condition = sources ? ["--conditions=kvcr-source"] : [];
	return new Promise((resolve) => {
		const child = spawn(
			process.execPath,
			[...process.execArgv, ...condition, program, ...args, "--json", json],
			{ stdio: "inherit" },
		);
		child.once("error", () => resolve(1));
		child.once("exit", (code) => resolve(code ?? 1));
	});
}
