/**
 * The test settings every package shares.
 *
 * Sibling packages are read from their sources (the `kvcr-source` export
 * condition), so tests never need a build. What the bootstrap fetched is in the
 * tests' environment: `KVCR_NIXL_LIBRARY` and `KVCR_NATS_SERVER` are paths, and
 * absent where the part was skipped.
 */
import { readFileSync } from "node:fs";
import { defineConfig, type ViteUserConfig } from "vitest/config";

/** The bootstrap's state, as far as it matters here. */
interface State {
	parts: { env?: Record<string, string> }[];
}

/** Where the bootstrap leaves word of what it found. */
const stateFile = new URL("../../.cache/bootstrap.json", import.meta.url);

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
			env: { ...bootstrapped(), ...chosen() },
			testTimeout: 20_000,
			hookTimeout: 20_000,
			teardownTimeout: 10_000,
			...test,
		},
	});
}

/** What the last bootstrap found, by environment variable. */
function bootstrapped(): Record<string, string> {
	try {
		const { parts }: State = JSON.parse(readFileSync(stateFile, "utf8"));
		return Object.assign({}, ...parts.map(({ env }) => env ?? {}));
	} catch {
		return {};
	}
}

/** What whoever runs the tests has set wins over what the bootstrap found. */
function chosen(): Record<string, string> {
	const own: Record<string, string> = {};
	for (const [name, value] of Object.entries(process.env))
		if (name.startsWith("KVCR_") && value !== undefined) own[name] = value;
	return own;
}
