import { expect, test } from "vitest";
import { allParts } from "../bootstrap/parts.mjs";
import { projects } from "../packaging/projects.mjs";
import { packageFolders, steps } from "./steps.mjs";

test("have names of their own", () => {
	const names = steps.map(({ name }) => name);
	expect(new Set(names).size).toBe(names.length);
});

test("need parts that the bootstrap has, and come after steps that are before them", () => {
	const parts = allParts.map(({ name }) => name);
	const before: string[] = [];
	for (const { name, needs = [], after = [] } of steps) {
		expect(parts).toEqual(expect.arrayContaining([...needs]));
		expect(before).toEqual(expect.arrayContaining([...after]));
		before.push(name);
	}
});

test("install every combination of packages", () => {
	const installed = steps
		.filter(({ command }) => command.includes("tools/packaging/main.mjs"))
		.flatMap(({ command }) => command.slice(2));
	expect([...installed].sort()).toEqual(Object.keys(projects).sort());
});

test("leave no package out", () => {
	const checked = steps
		.filter(({ command }) => command.includes("tools/test/check-packages.mjs"))
		.flatMap(({ command }) => command.slice(2));
	expect([...checked].sort()).toEqual(packageFolders);
	const tested = steps.flatMap(({ cwd, report }) =>
		report === "vitest" && cwd !== undefined ? [cwd] : [],
	);
	expect(tested).toEqual(
		expect.arrayContaining([...packageFolders, "tools", "test-e2e"]),
	);
});
