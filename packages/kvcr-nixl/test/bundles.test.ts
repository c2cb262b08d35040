import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "tsup";
import { afterAll, beforeAll, expect, it } from "vitest";

const source = JSON.stringify(join(import.meta.dirname, "../src/index.ts"));

let scratch: string;
beforeAll(() => {
	scratch = mkdtempSync(join(tmpdir(), "kvcr-nixl-"));
	writeFileSync(
		join(scratch, "program.ts"),
		`import { NixlTransferAgent } from ${source};
		console.log("imported");
		NixlTransferAgent.create().catch((error) => console.log(error.code, error.message));`,
	);
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

it.each([
	{ format: "esm", ending: ".mjs" },
	{ format: "cjs", ending: ".cjs" },
] as const)(
	"a bundle ($format) can be imported, and says what to do",
	async ({ format, ending }) => {
		await build({
			config: false,
			silent: true,
			entry: { [`bundle-${format}`]: join(scratch, "program.ts") },
			outDir: scratch,
			outExtension: () => ({ js: ending }),
			format,
			platform: "node",
			target: "node20",
			noExternal: [/./],
			tsconfig: join(import.meta.dirname, "../tsconfig.json"),
			esbuildOptions: (options) => {
				options.conditions = ["kvcr-source"];
				options.logLevel = "silent";
			},
		});
		const { stdout } = await promisify(execFile)(process.execPath, [
			join(scratch, `bundle-${format}${ending}`),
		]);
		expect(stdout).toMatch(/^imported\nERR_KVCR_NATIVE_ADDON /);
		expect(stdout).toContain("bundlers leave kvcr-nixl external");
	},
);
