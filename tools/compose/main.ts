/**
 * The hint composer from the command line: reads what workers hold, and writes the envelope a router would send.
 *
 * `npm run compose -- --inventory FILE [--inventory FILE …] --to WORKER [--from WORKER] [--hash N …] [--limit N]
 * [--mode copy|move] [--scope independent|request] [--no-framework] [--force]`
 *
 * A file holds one report or a list of them (see `inventory.ts`); `-` is the standard input. Several actions in one envelope:
 * `--plan FILE`, a JSON list of `{ "from", "hashes", "limit", "mode", "scope", "allow_framework", "force" }`, hashes as
 * decimal strings. Exit code 1: there is nothing to compose; 2: the input is unusable.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { userPath } from "../lib/user-path.js";
import {
	composeEnvelope,
	NothingToComposeError,
	type PlanEntry,
} from "./compose.js";
import { readReports } from "./inventory.js";
import { readPlan } from "./plan.js";

try {
	process.stdout.write(`${run()}\n`);
} catch (error) {
	console.error(error instanceof Error ? error.message : error);
	process.exitCode = error instanceof NothingToComposeError ? 1 : 2;
}

function run(): string {
	const { values } = parseArgs({
		options: {
			inventory: { type: "string", multiple: true },
			to: { type: "string" },
			from: { type: "string" },
			hash: { type: "string", multiple: true },
			limit: { type: "string" },
			mode: { type: "string" },
			scope: { type: "string" },
			"no-framework": { type: "boolean" },
			force: { type: "boolean" },
			plan: { type: "string" },
		},
	});
	if (values.to === undefined) throw new Error("compose: --to is missing");
	const given = [
		"from",
		"hash",
		"limit",
		"mode",
		"scope",
		"no-framework",
		"force",
	];
	const ignored = given.find((name) => Object.hasOwn(values, name));
	if (values.plan !== undefined && ignored !== undefined)
		throw new Error(`compose: --plan says all that --${ignored} would`);
	const single: Record<string, unknown> = {
		from: values.from,
		hashes: values.hash,
		limit: values.limit === undefined ? undefined : Number(values.limit),
		mode: values.mode,
		scope: values.scope,
		allow_framework: values["no-framework"] ? false : undefined,
		force: values.force,
	};
	const entries: PlanEntry[] =
		values.plan === undefined
			? readPlan([single], "arguments")
			: readPlan(json(values.plan), values.plan);
	if (values.inventory === undefined)
		throw new Error("compose: --inventory is missing");
	const reports = values.inventory.flatMap((file) =>
		readReports(read(file), file),
	);
	return composeEnvelope({ reports, to: values.to, entries });
}

function json(file: string): unknown {
	try {
		return JSON.parse(read(file));
	} catch (error) {
		throw new Error(`compose: ${file}: ${(error as Error).message}`);
	}
}

function read(file: string): string {
	return readFileSync(file === "-" ? 0 : userPath(file), "utf8");
}
