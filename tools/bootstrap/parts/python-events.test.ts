import {
	chmodSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BootstrapError, type Context } from "../lib/part.mjs";
import { pythonEvents } from "./python-events.mjs";

let folder: string;
let context: Context;
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "kvcr-python-"));
	mkdirSync(join(folder, "bin"));
	context = {
		root: folder,
		cache: join(folder, "cache"),
		env: { PATH: join(folder, "bin") },
		log: () => {},
	};
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A python3 that makes environments whose pip does what `pip` says. */
function python3(pip: string, able = "exit 0") {
	const file = join(folder, "bin", "python3");
	writeFileSync(
		file,
		`#!/bin/sh
PATH=/bin:/usr/bin
case "$1 $2" in
	"-c import"*) ${able};;
	"-m venv") mkdir -p "$3/bin"; printf '#!/bin/sh\\n${pip}\\n' > "$3/bin/python"; chmod +x "$3/bin/python";;
	*) exit 9;;
esac
`,
	);
	chmodSync(file, 0o755);
}

describe.runIf(process.platform === "linux")("Python for events", () => {
	test("is made once, and named in the environment", async () => {
		python3("exit 0");
		const outcome = await pythonEvents.ensure(context);
		expect(outcome).toMatchObject({
			status: "ready",
			env: {
				KVCR_EVENTS_PYTHON: join(context.cache, "python-events/bin/python"),
			},
		});
		python3("exit 0", "exit 1");
		expect(await pythonEvents.ensure(context)).toEqual(outcome);
		expect(readdirSync(context.cache)).toEqual(["python-events"]);
	});

	test("is skipped with the reason where Python cannot make it", async () => {
		expect(await pythonEvents.ensure(context)).toEqual({
			status: "skipped",
			reason: "no python3 in PATH",
		});
		python3("exit 0", "exit 1");
		expect(await pythonEvents.ensure(context)).toMatchObject({
			status: "skipped",
			reason: expect.stringContaining("python3-venv"),
		});
	});

	test("that cannot be filled is an error and leaves nothing behind", async () => {
		python3("echo no such version; exit 1");
		await expect(pythonEvents.ensure(context)).rejects.toThrow(BootstrapError);
		expect(readdirSync(context.cache)).toEqual([]);
	});
});
