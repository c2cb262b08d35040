import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const root = new URL("../../../", import.meta.url);

/** Every test the table names: file, and name or the beginning of a name that is put together. */
function references(): (readonly [file: string, name: string])[] {
	const text = readFileSync(new URL("docs/validation.md", root), "utf8");
	const found: [string, string][] = [];
	for (const line of text.split("\n")) {
		if (!line.startsWith("| ") || !line.includes("`: ")) continue;
		for (const [, file, names] of line.matchAll(
			/`([^`]+\.test\.ts)`: ("[^"]*"(?:; "[^"]*")*)/g,
		))
			for (const [, name] of (names ?? "").matchAll(/"([^"]*)"/g))
				found.push([file ?? "", name ?? ""]);
	}
	return found;
}

describe("docs/validation.md", () => {
	it("names only tests that exist, and every row names some", () => {
		const missing: string[] = [];
		const texts = new Map<string, string>();
		for (const [file, name] of references()) {
			const at = new URL(file, root);
			if (!texts.has(file))
				texts.set(file, existsSync(at) ? readFileSync(at, "utf8") : "");
			const quoted = [`"${name}`, `\`${name}`, `'${name}`];
			if (!quoted.some((start) => texts.get(file)?.includes(start)))
				missing.push(`${file}: ${name}`);
		}
		expect(missing).toEqual([]);
		expect(references().length).toBeGreaterThan(120);
		const rows = readFileSync(new URL("docs/validation.md", root), "utf8")
			.split("\n")
			.filter(
				(line) => line.startsWith("| ") && !/^\| (---|Statement)/.test(line),
			);
		expect(rows.filter((line) => !line.includes(".test.ts`: "))).toEqual([]);
	});
});
