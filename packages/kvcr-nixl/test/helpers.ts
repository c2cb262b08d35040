/** What the tests of this package share. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { NixlTransferAgent } from "../src/index.js";

/** NIXL's C library: what the environment names, or what the bootstrap has unpacked. */
export const libraryPath =
	process.env.KVCR_NIXL_LIBRARY ??
	join(
		import.meta.dirname,
		"../../../.cache/nixl/nixl_cu12-1.5.1/.nixl_cu12.mesonpy.libs/libnixl_capi.so",
	);

/** Why tests that need NIXL are skipped, or undefined. */
export const missingNixl =
	existsSync(libraryPath) || process.env.KVCR_REQUIRE_NIXL === "1"
		? undefined
		: `no NIXL library at ${libraryPath}`;

/** A new agent over the library under test. */
export function createAgent(name?: string): Promise<NixlTransferAgent> {
	return NixlTransferAgent.create({
		libraryPath,
		...(name === undefined ? {} : { name }),
	});
}
