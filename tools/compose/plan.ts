/** Reads plans: what to bring to the destination, entry by entry. */
import { InvalidArgumentError, routerHash } from "kvcr-core";
import type { PlanEntry } from "./compose.js";

const FIELDS = new Set([
	"from",
	"hashes",
	"limit",
	"mode",
	"scope",
	"allow_framework",
	"force",
]);

/** @throws InvalidArgumentError naming the field. Fields that are undefined count as absent. */
export function readPlan(value: unknown, name: string): PlanEntry[] {
	if (!Array.isArray(value)) refuse(name, value, "a list of entries");
	return (value as readonly unknown[]).map((entry, index) =>
		readEntry(entry, `${name}[${index}]`),
	);
}

/** A hash in decimal, or in hexadecimal after `0x`. @throws InvalidArgumentError */
export function readHash(text: unknown, at: string): bigint {
	if (typeof text === "number") return routerHash(text, "compose", at);
	if (
		typeof text !== "string" ||
		!/^(?:\d{1,20}|0x[0-9a-f]{1,16})$/i.test(text)
	)
		refuse(at, text, "an unsigned 64-bit integer in decimal");
	return routerHash(BigInt(text as string), "compose", at);
}

function readEntry(value: unknown, at: string): PlanEntry {
	if (typeof value !== "object" || value === null)
		refuse(at, value, "an object");
	const given = Object.entries(value as object).filter(
		([, field]) => field !== undefined,
	);
	for (const [field] of given)
		if (!FIELDS.has(field))
			refuse(`${at}.${field}`, field, `one of ${[...FIELDS].join(", ")}`);
	const { from, hashes, limit, mode, scope, allow_framework, force } =
		Object.fromEntries(given) as Record<string, unknown>;
	if (from !== undefined && typeof from !== "string")
		refuse(`${at}.from`, from, "the name of a worker");
	if (hashes !== undefined && !Array.isArray(hashes))
		refuse(`${at}.hashes`, hashes, "a list of hashes");
	if (
		limit !== undefined &&
		!(Number.isSafeInteger(limit) && Number(limit) > 0)
	)
		refuse(`${at}.limit`, limit, "a positive integer");
	if (mode !== undefined && mode !== "copy" && mode !== "move")
		refuse(`${at}.mode`, mode, '"copy" or "move"');
	if (scope !== undefined && scope !== "independent" && scope !== "request")
		refuse(`${at}.scope`, scope, '"independent" or "request"');
	for (const [field, flag] of Object.entries({ allow_framework, force }))
		if (flag !== undefined && typeof flag !== "boolean")
			refuse(`${at}.${field}`, flag, "a boolean");
	return {
		...(from !== undefined && { from: from as string }),
		...(hashes !== undefined && {
			hashes: (hashes as readonly unknown[]).map((hash, index) =>
				readHash(hash, `${at}.hashes[${index}]`),
			),
		}),
		...(limit !== undefined && { limit: limit as number }),
		...(mode !== undefined && { mode: mode as "copy" | "move" }),
		...(scope !== undefined && { scope: scope as "independent" | "request" }),
		...(allow_framework !== undefined && {
			allowFramework: allow_framework as boolean,
		}),
		...(force !== undefined && { force: force as boolean }),
	};
}

function refuse(argument: string, value: unknown, expected: string): never {
	throw new InvalidArgumentError("compose", argument, value, expected);
}
