/**
 * `npm test [-- [--verbose] [WORD...]]`: bootstraps and runs the steps in `steps.mjs`, or those whose
 * names contain one of the words. The last line says how it went.
 */
import { join } from "node:path";
import { bootstrap } from "../bootstrap/bootstrap.mjs";
import { withLock } from "../bootstrap/lib/lock.mjs";
import { cache, root } from "../bootstrap/lib/paths.mjs";
import { testCommand } from "./command.mjs";
import { steps } from "./steps.mjs";

/** Steps at a time. Many tests wait for processes and timers, so two share even a small machine well. */
const JOBS = 2;

/** How long to wait for another test run of this clone, in milliseconds. */
const LOCK_WAIT_MS = 900_000;

const args = process.argv.slice(2);
const words = args.filter((arg) => arg !== "--verbose");
try {
	process.exitCode = await withLock(
		join(cache, "test.lock"),
		{ waitMs: LOCK_WAIT_MS, log: console.log },
		() =>
			testCommand({
				steps: steps.filter(
					({ name }) =>
						words.length === 0 || words.some((word) => name.includes(word)),
				),
				bootstrap,
				root,
				workFolder: join(cache, "test"),
				print: console.log,
				verbose: args.includes("--verbose"),
				jobs: JOBS,
			}),
	);
} catch (error) {
	console.log(error instanceof Error ? error.message : error);
	console.log("0 passed, 1 failed");
	process.exitCode = 1;
}
