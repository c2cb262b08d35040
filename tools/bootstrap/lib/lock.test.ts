import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
	existsSync,
	mkdtempSync,
	readFileSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { withLock } from "./lock.mjs";
import { BootstrapError } from "./part.mjs";

let folder: string;
let file: string;
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "kvcr-lock-"));
	file = join(folder, "deep/lock");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const quiet = { waitMs: 10_000, log: () => {} };

test("is held while the work runs and gone afterwards, also when it throws", async () => {
	expect(await withLock(file, quiet, async () => existsSync(file))).toBe(true);
	expect(existsSync(file)).toBe(false);
	await expect(
		withLock(file, quiet, () => Promise.reject(new Error("work failed"))),
	).rejects.toThrow("work failed");
	expect(existsSync(file)).toBe(false);
});

test("several processes take turns", async () => {
	const log = join(folder, "log");
	const code = `
		import { appendFileSync } from "node:fs";
		import { setTimeout } from "node:timers/promises";
		import { withLock } from ${JSON.stringify(new URL("./lock.mjs", import.meta.url).href)};
		await withLock(${JSON.stringify(file)}, { waitMs: 15000, log() {} }, async () => {
			appendFileSync(${JSON.stringify(log)}, "in ");
			await setTimeout(30);
			appendFileSync(${JSON.stringify(log)}, "out\\n");
		});`;
	const children = Array.from({ length: 4 }, () =>
		spawn(process.execPath, ["--input-type=module", "-e", code], {
			stdio: "ignore",
		}),
	);
	const codes = await Promise.all(
		children.map(async (child) => (await once(child, "exit"))[0]),
	);
	expect(codes).toEqual([0, 0, 0, 0]);
	expect(readFileSync(log, "utf8")).toBe("in out\n".repeat(4));
});

test("of a process that died is taken over", async () => {
	const { pid } = spawnSync(process.execPath, ["-e", ""]);
	await withLock(file, quiet, async () => {});
	writeFileSync(file, `${pid} 12345`);
	expect(await withLock(file, quiet, async () => "done")).toBe("done");
});

test.runIf(existsSync("/proc/self/stat"))(
	"of a dead process whose number now belongs to another is taken over",
	async () => {
		await withLock(file, quiet, async () => {});
		writeFileSync(file, `${process.pid} 1`);
		expect(await withLock(file, quiet, async () => "done")).toBe("done");
	},
);

test("held for too long by somebody alive is an error that names the file", async () => {
	const told: string[] = [];
	const impatient = { waitMs: 0, log: (line: string) => told.push(line) };
	await withLock(file, quiet, async () => {
		const second = withLock(file, impatient, async () => {});
		await expect(second).rejects.toThrow(BootstrapError);
		await expect(second).rejects.toThrow(file);
	});
	expect(told).toHaveLength(1);
});
