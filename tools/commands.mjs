/** The commands of the root package.json that run something of ours, and what each needs. */
import { basicParts, nixlParts } from "./bootstrap/parts.mjs";

/**
 * @typedef {object} Command
 * @property {string} entry TypeScript file to run, relative to the root
 * @property {readonly string[]} parts parts of the bootstrap to have first
 * @property {boolean} [native] whether to build the addon for NIXL first, where there is a compiler
 * @property {boolean} [built] whether to build the packages and use that, instead of their sources
 */

/** @type {Record<string, Command>} */
export const commands = {
	demo: { entry: "tools/demo/main.ts", parts: nixlParts, native: true },
	bench: { entry: "tools/bench/main.ts", parts: nixlParts, built: true },
	"bench-peers": {
		entry: "tools/bench/peers/main.ts",
		parts: [...nixlParts, "python-peer"],
		built: true,
	},
	sim: { entry: "tools/sim/main.ts", parts: basicParts },
	compose: { entry: "tools/compose/main.ts", parts: basicParts },
	"record-wire": {
		entry: "test-e2e/interop/record.ts",
		parts: [...nixlParts, "python-peer"],
		native: true,
	},
};
