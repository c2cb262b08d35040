import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PartResult } from "../bootstrap/lib/part.mjs";
import { root as repository } from "../bootstrap/lib/paths.mjs";
import { testCommand } from "./command.mjs";
import type { Step } from "./steps.mjs";

const binaries = join(repository, "node_modules/.bin");

let folder: string;
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "kvcr-test-command-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the command on these steps and answers with what it printed. */
async function runCommand(
	steps: Step[],
	how: { parts?: PartResult[]; usable?: boolean } = {},
) {
	const lines: string[] = [];
	const { parts = [], usable = true } = how;
	const code = await testCommand({
		steps,
		bootstrap: async () => ({
			parts,
			usable,
			env: { ...process.env, PATH: `${binaries}:${process.env.PATH}` },
		}),
		root: folder,
		workFolder: join(folder, "work"),
		print: (line) => lines.push(line),
	});
	return { code, lines, last: lines.at(-1), text: lines.join("\n") };
}

/** A step that runs a line of JavaScript. */
function script(name: string, code: string, more: Partial<Step> = {}): Step {
	return { name, command: [process.execPath, "-e", code], ...more };
}

/** A package with this vitest suite, as a step. */
function suite(name: string, source: string | undefined): Step {
	mkdirSync(join(folder, name, "test"), { recursive: true });
	if (source !== undefined)
		writeFileSync(join(folder, name, "test/some.test.js"), source);
	return {
		name,
		cwd: name,
		command: ["vitest", "run", "--globals", "--root", join(folder, name)],
		report: "vitest",
	};
}

describe("packages with vitest suites", () => {
	test("are added up, and a failing one is counted and makes the exit code 1", async () => {
		const { code, last, text } = await runCommand([
			suite(
				"good",
				"test('a', () => {}); test('b', () => {}); test.skip('later', () => {});",
			),
			suite(
				"bad",
				"test('c', () => {}); test('d', () => { throw new Error('broken on purpose'); });",
			),
		]);
		expect(last).toBe("3 passed, 1 failed, 1 skipped");
		expect(code).toBe(1);
		expect(text).toContain("broken on purpose");
		expect(text).toContain("skipped: later");
	});

	test("all good give exit code 0", async () => {
		const { code, last } = await runCommand([
			suite("good", "test('a', () => {});"),
		]);
		expect({ code, last }).toEqual({ code: 0, last: "1 passed, 0 failed" });
	});

	test("without a test are failures", async () => {
		const { code, last } = await runCommand([suite("empty", undefined)]);
		expect({ code, last }).toEqual({ code: 1, last: "0 passed, 1 failed" });
	});

	test("that do not load, or reject outside a test, are failures", async () => {
		const { code, last } = await runCommand([
			suite("unloadable", "import './absent.js'; test('a', () => {});"),
			suite(
				"rejecting",
				"Promise.reject(new Error('stray')); test('a', () => {});",
			),
		]);
		expect({ code, last }).toEqual({ code: 1, last: "1 passed, 2 failed" });
	});
});

describe("other steps", () => {
	test("count one each, and a failed one does not keep the next from running", async () => {
		const { code, last } = await runCommand([
			script("one", "process.exit(7)"),
			script("two", ""),
		]);
		expect({ code, last }).toEqual({ code: 1, last: "1 passed, 1 failed" });
	});

	test("that cannot start, crash or overrun their time are failures", async () => {
		const { last } = await runCommand([
			{ name: "absent", command: ["no-such-program-anywhere"] },
			script("crash", "process.abort()"),
			script("slow", "setInterval(() => {}, 1000)", { timeoutMs: 300 }),
		]);
		expect(last).toBe("0 passed, 3 failed");
	});

	test("that build on a failed one fail without running", async () => {
		const { last, text } = await runCommand([
			script("build", "process.exit(1)"),
			script("check", "process.exit(0)", { after: ["build"] }),
		]);
		expect(last).toBe("0 passed, 2 failed");
		expect(text).toContain("not run: build failed");
	});

	test("may report test by test to a file", async () => {
		const { last } = await runCommand([
			script(
				"reporter",
				`require("fs").writeFileSync(process.env.KVCR_TEST_REPORT, JSON.stringify({ testResults: [
					{ name: "x", status: "passed", assertionResults: [{ title: "a", status: "passed" }, { title: "b", status: "passed" }] }] }))`,
				{ report: "file" },
			),
		]);
		expect(last).toBe("2 passed, 0 failed");
	});

	test("do not count a report left by an earlier run", async () => {
		mkdirSync(join(folder, "work"));
		writeFileSync(
			join(folder, "work/silent.json"),
			'{"testResults":[{"name":"x","status":"passed","assertionResults":[{"title":"a","status":"passed"}]}]}',
		);
		const { last } = await runCommand([
			script("silent", "", { report: "file" }),
		]);
		expect(last).toBe("0 passed, 1 failed");
	});
});

describe("parts of the bootstrap", () => {
	const skipped: PartResult = {
		name: "nats-server",
		status: "skipped",
		detail: "no such thing here",
	};

	test("that were skipped skip the steps that need them, with the reason", async () => {
		const { code, last, text } = await runCommand(
			[
				script("broker", "process.exit(1)", { needs: ["nats-server"] }),
				script("other", ""),
			],
			{ parts: [skipped] },
		);
		expect({ code, last }).toEqual({
			code: 0,
			last: "1 passed, 0 failed, 2 skipped",
		});
		expect(text).toContain("needs nats-server: no such thing here");
	});

	test("that failed are failures, and without a required one nothing runs", async () => {
		const { code, last } = await runCommand([script("one", "")], {
			parts: [{ name: "pnpm", status: "failed", detail: "no registry" }],
			usable: false,
		});
		expect({ code, last }).toEqual({ code: 1, last: "0 passed, 1 failed" });
	});
});

test("a run of nothing is a failure", async () => {
	const { code, last } = await runCommand([]);
	expect({ code, last }).toEqual({ code: 1, last: "0 passed, 1 failed" });
});
