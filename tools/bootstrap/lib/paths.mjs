/** Where things lie. Everything fetched or generated goes under `.cache/`, which git ignores. */
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root. */
export const root = resolve(
	dirname(fileURLToPath(import.meta.url)),
	"../../..",
);

/** The folder that holds whatever the bootstrap fetched. */
export const cache = join(root, ".cache");

/** What the last bootstrap found: a {@link import("./part.mjs").State} as JSON. */
export const stateFile = join(cache, "bootstrap.json");
