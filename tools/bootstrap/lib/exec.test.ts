import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { run, which } from "./exec.mjs";

const node = process.execPath;

test("gives the exit code and what was printed on both streams", async () => {
	const code = "console.log('out'); console.error('err'); process.exit(3)";
	const result = await run(node, ["-e", code], { timeoutMs: 10_000 });
	expect(result).toMatchObject({ code: 3, timedOut: false });
	expect(result.output).toContain("out\n");
	expect(result.output).toContain("err\n");
});

test("does not throw for a program that is not there", async () => {
	const result = await run("no-such-program-anywhere", [], {
		timeoutMs: 10_000,
	});
	expect(result.code).toBeNull();
	expect(result.output).toContain("ENOENT");
});

test("a time-out ends the program and what it started", async () => {
	const code = `
		const child = require("child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
		console.log(child.pid);
		setInterval(() => {}, 1000);`;
	const result = await run(node, ["-e", code], { timeoutMs: 1_500 });
	expect(result).toMatchObject({ code: null, timedOut: true });
	const pid = Number(result.output.split("\n")[0]);
	await expect.poll(() => alive(pid), { timeout: 5_000 }).toBe(false);
});

test("what a program leaves behind neither delays its end nor outlives it", async () => {
	const code = `
		const child = require("child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "inherit" });
		console.log(child.pid);
		child.unref();
		setTimeout(() => process.exit(0), 50);`;
	const started = performance.now();
	const result = await run(node, ["-e", code], { timeoutMs: 15_000 });
	expect(result.code).toBe(0);
	expect(performance.now() - started).toBeLessThan(10_000);
	const pid = Number(result.output.split("\n")[0]);
	await expect.poll(() => alive(pid), { timeout: 5_000 }).toBe(false);
});

test("a signal ends what runs, and nothing is started after it", async () => {
	const code = `
		import { run } from ${JSON.stringify(new URL("./exec.mjs", import.meta.url).href)};
		const endless = ["-e", "console.log(process.pid); setInterval(() => {}, 1000)"];
		const first = await run(process.execPath, endless, { timeoutMs: 15000, onOutput: (text) => console.log(text) });
		const second = await run(process.execPath, endless, { timeoutMs: 15000 });
		console.log(first.code, second.code, second.output);`;
	const child = spawn(node, ["--input-type=module", "-e", code], {
		stdio: ["ignore", "pipe", "inherit"],
	});
	let output = "";
	for await (const chunk of child.stdout.setEncoding("utf8")) {
		// The first thing printed is the process ID of what runs.
		if (output === "") child.kill("SIGTERM");
		output += chunk;
	}
	expect(output).toContain("null null");
	expect(output).toContain("not started, interrupted");
	expect(alive(Number(output.split("\n")[0]))).toBe(false);
});

test("finds programs in PATH only", () => {
	expect(which("sh", { PATH: "/nowhere:/bin" })).toBe("/bin/sh");
	expect(which("sh", { PATH: "/nowhere" })).toBeUndefined();
	expect(which("bin", { PATH: "/" })).toBeUndefined();
});

/** Whether a process runs; one that merely was not collected yet does not count. */
function alive(pid: number): boolean {
	expect(pid).toBeGreaterThan(0);
	try {
		process.kill(pid, 0);
	} catch {
		return false;
	}
	const state = stateOf(pid);
	return state !== undefined && state !== "Z";
}

/** The letter for a process's state; "R" where the system does not tell. */
function stateOf(pid: number): string | undefined {
	if (!existsSync("/proc/self/stat")) return "R";
	try {
		const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
		return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[0];
	} catch {
		return undefined;
	}
}
