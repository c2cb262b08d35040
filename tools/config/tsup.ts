/**
 * The build every package shares: ESM and CommonJS with types for both.
 *
 * Splitting is on for both formats, so that an error class reached through two
 * entry points of a package is one class and `instanceof` holds.
 */
import type { Options } from "tsup";

/** Entry points, by output name: `{ index: "src/index.ts" }` gives `dist/index.*`. */
export type Entries = Record<string, string>;

/** The tsup options of a package with these entry points. */
export function packageBuild(entry: Entries): Options {
	return {
		entry,
		format: ["esm", "cjs"],
		target: "node20",
		platform: "node",
		tsconfig: "tsconfig.build.json",
		dts: true,
		splitting: true,
		sourcemap: true,
		esbuildOptions: (options) => {
			// Maps lead stack traces to files and lines; the sources in them would double the package.
			options.sourcesContent = false;
		},
		clean: true,
		// Without them `import.meta` stays in the CommonJS output, where it is a syntax error.
		shims: true,
	};
}
