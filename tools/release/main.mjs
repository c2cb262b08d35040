/**
 * `npm run release [-- --dry-run [--skip-checks]]`: versions and changelogs from the changesets, build with every prebuilt
 * artefact, all checks, packing, publishing, tags. A dry run does it on a copy and publishes nothing.
 */
import { parseArgs } from "node:util";
import { root } from "../bootstrap/lib/paths.mjs";
import { dryRun, release } from "./release.mjs";

const { values } = parseArgs({
	options: {
		"dry-run": { type: "boolean", default: false },
		"skip-checks": { type: "boolean", default: false },
	},
});
try {
	if (values["dry-run"])
		await dryRun(root, { checks: !values["skip-checks"], print: console.log });
	else if (values["skip-checks"])
		throw new Error("--skip-checks is for a dry run; a release is checked");
	else await release(root, { print: console.log });
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = 1;
}
