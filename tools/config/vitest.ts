/**
 * The test settings every package shares. Sibling packages are read from their
 * sources (the `kvcr-source` export condition), so tests never need a build.
 */
import { defineConfig, type ViteUserConfig } from "vitest/config";

const conditions = ["kvcr-source", "module", "node", "development|production"];

/** Vitest settings for one package; `test` adds to or replaces the shared ones. */
export function packageTests(
	test: NonNullable<ViteUserConfig["test"]> = {},
): ViteUserConfig {
	return defineConfig({
		resolve: { conditions },
		ssr: { resolve: { conditions } },
		test: {
			include: ["test/**/*.test.ts"],
			environment: "node",
			pool: "forks",
			execArgv: ["--conditions=kvcr-source"],
			testTimeout: 20_000,
			hookTimeout: 20_000,
			teardownTimeout: 10_000,
			...test,
		},
	});
}
