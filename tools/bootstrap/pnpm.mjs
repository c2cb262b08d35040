/** `node tools/bootstrap/pnpm.mjs ARGS...`: the pinned pnpm, for machines that have none. */
import { spawnSync } from "node:child_process";
import { bootstrap } from "./bootstrap.mjs";
import { report } from "./report.mjs";

const { parts, usable, env } = await bootstrap({
	only: ["pnpm"],
	log: (line) => console.error(line),
});
if (usable) {
	const child = spawnSync("pnpm", process.argv.slice(2), {
		env,
		stdio: "inherit",
	});
	process.exitCode = child.status ?? 1;
} else {
	report(parts);
	process.exitCode = 1;
}
