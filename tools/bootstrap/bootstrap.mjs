/**
 * Makes a clean clone able to run: goes through the parts in order and says what came of each.
 *
 * Needs nothing but Node and npm, and imports nothing that is not in this folder.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { withLock } from "./lib/lock.mjs";
import { BootstrapError } from "./lib/part.mjs";
import { cache, root, stateFile } from "./lib/paths.mjs";
import { allParts } from "./parts.mjs";

/** The oldest major version of Node that the packages run on. */
const OLDEST_NODE = 20;

/** How long to wait for another bootstrap of this clone, in milliseconds. */
const LOCK_WAIT_MS = 600_000;

/**
 * @typedef {object} BootstrapOptions
 * @property {readonly string[]} [only] names of the parts wanted; all of them when absent
 * @property {readonly import("./lib/part.mjs").Part[]} [parts] the parts there are
 * @property {boolean} [strict] whether an optional part that cannot be had is a failure; true where `CI=true`
 * @property {NodeJS.ProcessEnv} [env] the environment to start from
 * @property {(line: string) => void} [log]
 * @property {string} [cacheFolder]
 */

/**
 * @typedef {object} Bootstrapped
 * @property {import("./lib/part.mjs").PartResult[]} parts what came of each part asked for
 * @property {boolean} usable false when a required part failed, so that nothing can run
 * @property {NodeJS.ProcessEnv} env for whatever runs next
 */

/**
 * Makes the parts available, one run at a time per clone. Does not throw for a part that
 * fails: that is in the answer. Throws {@link BootstrapError} on an unknown part, on too old
 * a Node, and when another run does not end.
 *
 * @param {BootstrapOptions} [options]
 * @returns {Promise<Bootstrapped>}
 */
export async function bootstrap(options = {}) {
	const {
		only,
		parts = allParts,
		env: initial = process.env,
		strict = isCI(initial),
		log = (line) => console.log(`  ${line}`),
		cacheFolder = cache,
	} = options;
	if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE)
		throw new BootstrapError(
			`Node ${process.versions.node} is too old: Node ${OLDEST_NODE} or newer is needed.`,
		);
	const wanted = parts.filter(({ name }) => only?.includes(name) ?? true);
	const unknown = only?.filter((name) => !parts.some((p) => p.name === name));
	if (unknown?.length)
		throw new BootstrapError(
			`bootstrap: no part is called ${unknown.join(", ")}; there are ${parts.map((p) => p.name).join(", ")}.`,
		);
	const lock = join(cacheFolder, "bootstrap.lock");
	return withLock(lock, { waitMs: LOCK_WAIT_MS, log }, async () => {
		const result = await runParts(wanted, initial, {
			strict,
			log,
			cacheFolder,
		});
		remember(result, cacheFolder === cache ? stateFile : undefined);
		return result;
	});
}

/**
 * Whether this is a run that must not leave anything out.
 *
 * @param {NodeJS.ProcessEnv} [env]
 */
export function isCI(env = process.env) {
	return env.CI === "true" || env.CI === "1";
}

/**
 * @param {readonly import("./lib/part.mjs").Part[]} wanted
 * @param {NodeJS.ProcessEnv} initial
 * @param {{ strict: boolean, log: (line: string) => void, cacheFolder: string }} how
 * @returns {Promise<Bootstrapped>}
 */
async function runParts(wanted, initial, { strict, log, cacheFolder }) {
	const env = { ...initial };
	/** @type {import("./lib/part.mjs").PartResult[]} */
	const results = [];
	for (const part of wanted) {
		const outcome = await ensure(part, { root, cache: cacheFolder, env, log });
		if (outcome.status === "ready") {
			const { PATH, ...rest } = outcome.env ?? {};
			if (PATH !== undefined)
				env.PATH = [PATH, env.PATH].filter(Boolean).join(delimiter);
			Object.assign(env, rest);
			results.push({
				name: part.name,
				status: "ready",
				detail: outcome.detail,
				...(Object.keys(rest).length > 0 ? { env: rest } : {}),
			});
			continue;
		}
		const fatal = part.required || strict;
		results.push({
			name: part.name,
			status: fatal ? "failed" : "skipped",
			detail: outcome.reason,
		});
		if (part.required) return { parts: results, usable: false, env };
	}
	return { parts: results, usable: true, env };
}

/**
 * @param {import("./lib/part.mjs").Part} part
 * @param {import("./lib/part.mjs").Context} context
 * @returns {Promise<import("./lib/part.mjs").Outcome>}
 */
async function ensure(part, context) {
	try {
		return await part.ensure(context);
	} catch (error) {
		const reason =
			error instanceof BootstrapError
				? error.message
				: `unexpected: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
		return { status: "skipped", reason };
	}
}

/**
 * Test configurations read this, so that a suite run by hand finds the same things as `npm test`.
 * A run for a few parts keeps what earlier runs found out about the others.
 *
 * @param {Bootstrapped} result
 * @param {string | undefined} file
 */
function remember(result, file) {
	if (file === undefined) return;
	/** @type {import("./lib/part.mjs").State} */
	let before = { parts: [] };
	try {
		before = JSON.parse(readFileSync(file, "utf8"));
	} catch {
		// There was no run before, or one that was cut short.
	}
	const now = new Set(result.parts.map(({ name }) => name));
	/** @type {import("./lib/part.mjs").State} */
	const state = {
		parts: [
			...before.parts.filter(({ name }) => !now.has(name)),
			...result.parts,
		],
	};
	mkdirSync(cache, { recursive: true });
	writeFileSync(`${file}.new`, `${JSON.stringify(state, null, "\t")}\n`);
	renameSync(`${file}.new`, file);
}
