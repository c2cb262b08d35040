import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { missingNixl, runChild } from "./helpers.js";

/** With the distribution's verbs library present, loading UCX used to crash every process at its end. */
const verbs = [
	"/usr/lib/x86_64-linux-gnu/libibverbs.so.1",
	"/usr/lib/aarch64-linux-gnu/libibverbs.so.1",
	"/usr/lib64/libibverbs.so.1",
].some((path) => existsSync(path));

(missingNixl === undefined ? describe.concurrent : describe.skip)(
	`a process ends with its own code (distribution's libibverbs: ${verbs ? "installed" : "not installed"})`,
	() => {
		it.each([
			["with everything closed", "closed"],
			["by itself, with an open agent that has nothing to do", "open"],
			["by itself, after its last expectation", "expected"],
			["by itself, once its writes in flight are done", "flight"],
			["by process.exit with writes in flight", "exit"],
			["by process.exit inside a wake", "exitInWake"],
			["by an exception inside a wake", "throwInWake"],
			["by process.exit during close", "exitWhileClosing"],
			["by process.exit while an agent is created", "exitWhileCreating"],
			["by process.exit while memory is registered", "exitWhileRegistering"],
			["with several agents, some closed", "several"],
			["after workers that closed, left and were terminated", "workers"],
			["by process.exit under a worker with writes in flight", "workersAtExit"],
		])("%s", async (_name, mode) => {
			const ended = await runChild("exits.ts", [mode]);
			expect(ended, ended.stderr).toMatchObject({ code: 42, signal: null });
		});

		it("by an uncaught exception with writes in flight", async () => {
			expect(await runChild("exits.ts", ["throw"])).toMatchObject({
				code: 1,
				signal: null,
				stderr: expect.stringContaining("on purpose"),
			});
		});
	},
);
