/** The commands of the root package.json that run something of ours, and what each needs. */
import { basicParts } from "./bootstrap/parts.mjs";

/**
 * @typedef {object} Command
 * @property {string} entry TypeScript file to run, relative to the root
 * @property {readonly string[]} parts parts of the bootstrap to have first
 * @property {boolean} [built] whether to build the packages and use that, instead of their sources
 */

/** @type {Record<string, Command>} */
export const commands = {
	demo: { entry: "tools/demo/main.ts", parts: basicParts },
	bench: { entry: "tools/bench/main.ts", parts: basicParts, built: true },
	sim: { entry: "tools/sim/main.ts", parts: basicParts },
};
