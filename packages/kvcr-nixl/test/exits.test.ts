import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nativeProgram } from "../scripts/build-program.mjs";
import { Child, libraryPath, missingNixl, runChild } from "./helpers.js";
import { verbsEnvironment, verbsInstalled } from "./verbs.js";

const suite = missingNixl === undefined ? describe.concurrent : describe.skip;

suite(`a process ends with its own code, the distribution's RDMA libraries ${verbsInstalled ? "installed" : "not installed"}`, () =>
	endings({}));

if (verbsEnvironment === undefined)
	it.skip(
		"a process ends with its own code beside the distribution's RDMA libraries: not fetched (see verbs-libraries of the bootstrap)",
	);
else beside(verbsEnvironment);

function beside(env: Record<string, string>) {
	suite("a process ends with its own code, beside the distribution's RDMA libraries", () => {
		it("where one that takes no care dies", async ({ skip }) => {
			const death = await plainProgram(env);
			// With a distribution that does no harm the tests below prove little; where nothing may be left out, say so.
			if (process.env.CI === undefined && death === 42)
				skip("these libraries do no harm");
			expect(death).toBe("SIGSEGV");
			if (!verbsInstalled) expect(await plainProgram({})).toBe(42);
		});

		endings(env);
	});
}

function endings(env: Record<string, string>) {
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
		["by process.exit with named shared memory", "names"],
		["after workers that closed, left and were terminated", "workers"],
		["by process.exit under a worker with writes in flight", "workersAtExit"],
	])("%s", async (_name, mode) => {
		const ended = await runChild("exits.ts", [mode], env);
		expect(ended, ended.stderr).toMatchObject({ code: 42, signal: null });
		expect(namesOf(ended.pid)).toEqual([]);
	});

	it.each([
		["with writes in flight", "throw"],
		["with named shared memory", "namesAtThrow"],
	])("by an uncaught exception %s", async (_name, mode) => {
		const ended = await runChild("exits.ts", [mode], env);
		expect(ended).toMatchObject({
			code: 1,
			signal: null,
			stderr: expect.stringContaining("on purpose"),
		});
		expect(namesOf(ended.pid)).toEqual([]);
	});
}

suite("a process that ends at once", () => {
	it.each([
		["by process.exit", "exit", 42],
		["by an exception", "throw", 1],
	])("%s, delivers what it wrote before", async (_name, how, code) => {
		const target = new Child("peer.ts", [], { UCX_TLS: "tcp" });
		const writer = new Child("write-and-end.ts", [how], { UCX_TLS: "tcp" });
		writer.say(await target.line());
		const ended = await writer.ended;
		expect(ended, ended.stderr).toMatchObject({ code, signal: null });
		target.say("report");
		const [, report] = await target.lines(2);
		expect(report).toBe("heard bye,large,small of 16 elements");
		target.process.stdin?.end();
		await target.ended;
	});

	it("takes a second at most when a close of its cannot come to its end", async () => {
		const target = new Child("peer.ts", [], { UCX_TLS: "tcp" });
		const introduction = await target.line();
		target.process.kill("SIGSTOP");
		try {
			const closer = new Child("write-and-end.ts", ["close"], {
				UCX_TLS: "tcp",
			});
			closer.say(introduction);
			await closer.line();
			const closingAt = performance.now();
			expect(await closer.ended).toMatchObject({ code: 42, signal: null });
			expect(performance.now() - closingAt).toBeLessThan(5_000);
		} finally {
			target.process.kill("SIGKILL");
			await target.ended;
		}
	});
});

/** Named shared memory that a child left behind. */
function namesOf(pid: number | undefined): string[] {
	return readdirSync("/dev/shm").filter((name) =>
		name.startsWith(`kvcr-exits-${pid}-`),
	);
}

/** How a program ends that opens an agent without our care and asks for code 42: its code, or the signal it died of. */
function plainProgram(
	env: Record<string, string>,
): Promise<number | NodeJS.Signals | null> {
	return new Promise((resolve) => {
		const child = execFile(nativeProgram("control/plain"), [libraryPath], {
			env: { ...process.env, UCX_LOG_LEVEL: "fatal", ...env },
		});
		child.once("exit", (code, signal) => resolve(signal ?? code));
	});
}
