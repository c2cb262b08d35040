/** `node tools/bootstrap/main.mjs [PART...]`: makes a clone ready to work in; all parts when none is named. */
import { bootstrap } from "./bootstrap.mjs";
import { report } from "./report.mjs";

const names = process.argv.slice(2);
try {
	const { parts } = await bootstrap(names.length > 0 ? { only: names } : {});
	report(parts);
	if (parts.some(({ status }) => status === "failed")) process.exitCode = 1;
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = 1;
}
