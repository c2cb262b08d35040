import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { bootstrap } from "./bootstrap.mjs";
import { BootstrapError, type Outcome, type Part } from "./lib/part.mjs";

let cacheFolder: string;
beforeEach(() => {
	cacheFolder = mkdtempSync(join(tmpdir(), "kvcr-bootstrap-"));
});
afterEach(() => rmSync(cacheFolder, { recursive: true, force: true }));

function part(
	name: string,
	ensure: Part["ensure"] | Outcome,
	required = false,
): Part {
	return {
		name,
		required,
		ensure: typeof ensure === "function" ? ensure : async () => ensure,
	};
}

const log = () => {};

describe("an optional part", () => {
	const absent = part("extra", { status: "skipped", reason: "not here" });

	test("that is not to be had is skipped with its reason", async () => {
		const { parts, usable } = await bootstrap({
			parts: [absent],
			env: {},
			log,
			cacheFolder,
		});
		expect(usable).toBe(true);
		expect(parts).toEqual([
			{ name: "extra", status: "skipped", detail: "not here" },
		]);
	});

	test("that is not to be had is a failure in continuous integration", async () => {
		const { parts } = await bootstrap({
			parts: [absent],
			env: { CI: "true" },
			log,
			cacheFolder,
		});
		expect(parts).toEqual([
			{ name: "extra", status: "failed", detail: "not here" },
		]);
	});

	test("that throws does not keep the next from running", async () => {
		const { parts } = await bootstrap({
			parts: [
				part("broken", async () => {
					throw new BootstrapError("fetching it went wrong");
				}),
				part("fine", { status: "ready", detail: "1.0" }),
			],
			env: {},
			log,
			cacheFolder,
		});
		expect(parts).toEqual([
			{ name: "broken", status: "skipped", detail: "fetching it went wrong" },
			{ name: "fine", status: "ready", detail: "1.0" },
		]);
	});
});

test("a required part that fails ends the bootstrap", async () => {
	let ran = false;
	const { parts, usable } = await bootstrap({
		parts: [
			part(
				"base",
				async () => {
					throw new BootstrapError("no registry");
				},
				true,
			),
			part("later", async () => {
				ran = true;
				return { status: "ready", detail: "" };
			}),
		],
		env: {},
		log,
		cacheFolder,
	});
	expect({ usable, ran }).toEqual({ usable: false, ran: false });
	expect(parts).toEqual([
		{ name: "base", status: "failed", detail: "no registry" },
	]);
});

test("later parts and the caller see what earlier parts made available", async () => {
	let seen: NodeJS.ProcessEnv = {};
	const { env } = await bootstrap({
		parts: [
			part("a", {
				status: "ready",
				detail: "",
				env: { PATH: "/tools", KVCR_THING: "/thing" },
			}),
			part("b", async (context) => {
				seen = { ...context.env };
				return { status: "ready", detail: "" };
			}),
		],
		env: { PATH: "/usr/bin", KEPT: "yes" },
		log,
		cacheFolder,
	});
	const expected = {
		PATH: "/tools:/usr/bin",
		KVCR_THING: "/thing",
		KEPT: "yes",
	};
	expect(seen).toEqual(expected);
	expect(env).toEqual(expected);
});

test("only the parts asked for run, and an unknown name is refused", async () => {
	const ready: Outcome = { status: "ready", detail: "" };
	const options = {
		parts: [part("a", ready), part("b", ready)],
		env: {},
		log,
		cacheFolder,
	};
	const { parts } = await bootstrap({ ...options, only: ["b"] });
	expect(parts.map(({ name }) => name)).toEqual(["b"]);
	await expect(bootstrap({ ...options, only: ["c"] })).rejects.toThrow(
		/no part is called c/,
	);
});
