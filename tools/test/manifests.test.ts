import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { root } from "../bootstrap/lib/paths.mjs";
import { packageFolders } from "./steps.mjs";

type Exports = Record<string, string | Record<string, unknown>>;

/** What is published: the same entry points, without the way to the sources. */
function withoutSources(exports: Exports): Exports {
	return Object.fromEntries(
		Object.entries(exports).map(([path, target]) => {
			if (typeof target === "string") return [path, target];
			const { "kvcr-source": _source, ...published } = target;
			return [path, published];
		}),
	);
}

test("there are packages to check", () => {
	expect(packageFolders).toContain("packages/kvcr-core");
});

describe.each(packageFolders)("%s", (folder) => {
	const manifest = JSON.parse(
		readFileSync(join(root, folder, "package.json"), "utf8"),
	);

	test("publishes the entry points it is developed with", () => {
		expect(manifest.publishConfig.exports).toEqual(
			withoutSources(manifest.exports),
		);
	});

	test("offers sources, ESM and CommonJS, with types, at every code entry point", () => {
		for (const [path, target] of Object.entries<unknown>(manifest.exports)) {
			if (typeof target === "string") continue;
			expect({ path, target }).toMatchObject({
				target: {
					"kvcr-source": expect.stringMatching(/^\.\/src\/.*\.ts$/),
					import: {
						types: expect.stringMatching(/\.d\.ts$/),
						default: expect.stringMatching(/\.js$/),
					},
					require: {
						types: expect.stringMatching(/\.d\.cts$/),
						default: expect.stringMatching(/\.cjs$/),
					},
				},
			});
			// The first condition that matches wins.
			expect(Object.keys(target as object)[0]).toBe("kvcr-source");
		}
	});

	test("says what it is and where it runs", () => {
		expect(manifest).toMatchObject({
			description: expect.stringMatching(/./),
			license: "Apache-2.0",
			type: "module",
			sideEffects: false,
			engines: { node: ">=20" },
			files: expect.arrayContaining(["dist"]),
		});
	});

	test("depends on no sibling but the core", () => {
		const siblings = packageFolders.map((f) => f.replace("packages/", ""));
		const used = Object.keys({
			...manifest.dependencies,
			...manifest.peerDependencies,
		}).filter((name) => siblings.includes(name));
		expect(used).toEqual(folder.endsWith("/kvcr-core") ? [] : ["kvcr-core"]);
	});
});
