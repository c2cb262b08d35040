import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../bootstrap/lib/exec.mjs";
import { root } from "../bootstrap/lib/paths.mjs";

test("the example in the README type-checks against the packages", async () => {
	const readme = readFileSync(join(root, "README.md"), "utf8");
	const example = /```ts\n(.*?)```/s.exec(readme)?.[1];
	expect(example).toContain("kvcr-core");

	// Inside tools/, from where all the packages can be imported.
	const folder = mkdtempSync(join(root, "tools/.example-"));
	try {
		writeFileSync(join(folder, "example.ts"), example ?? "");
		const tsconfig = {
			extends: "../../tsconfig.base.json",
			files: ["example.ts"],
		};
		writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(tsconfig));
		const { code, output } = await run(
			join(root, "node_modules/.bin/tsc"),
			["-p", folder, "--pretty", "false"],
			{ timeoutMs: 60_000 },
		);
		expect(output).toBe("");
		expect(code).toBe(0);
	} finally {
		rmSync(folder, { recursive: true, force: true });
	}
}, 90_000);
