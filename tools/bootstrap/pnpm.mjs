/** `node tools/bootstrap/pnpm.mjs ARGS...`: the pinned pnpm, for machines that have none. */
import { spawnSync } from "node:child_process";
import { bootstrap } from "./bootstrap.mjs";
import { report } from "./report.mjs";

try {
	const { parts, usable, env } = await bootstrap({
		only: ["pnpm"],
		log: console.error,
	});
	if (!usable) report(parts, console.error);
	const child = usable
		? spawnSync("pnpm", process.argv.slice(2), { env, stdio: "inherit" })
		: undefined;
	process.exitCode = child?.status ?? 1;
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = 1;
}
