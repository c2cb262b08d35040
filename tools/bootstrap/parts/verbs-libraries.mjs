/**
 * Debian's RDMA user space, unpacked into `.cache/`. Where it is installed, a process that loads NIXL's own copy of
 * the same libraries used to crash at its end: tests put these in the loader's way and look at exit codes.
 */
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { hasApt, unpackDebian } from "../lib/debian.mjs";
import { BootstrapError } from "../lib/part.mjs";

const PACKAGES = [
	"ibverbs-providers",
	"libibverbs1",
	"libnl-3-200",
	"libnl-route-3-200",
];

/** What NIXL's UCX loads, and what that needs. */
const LIBRARIES = ["libibverbs.so.1", "libnl-3.so.200", "libnl-route-3.so.200"];

/** @type {import("../lib/part.mjs").Part} */
export const verbsLibraries = {
	name: "verbs-libraries",
	required: false,
	async ensure(context) {
		const home = join(context.cache, "verbs-libraries");
		if (!existsSync(home)) {
			if (process.platform !== "linux")
				return { status: "skipped", reason: "there is RDMA on Linux only" };
			if (!hasApt(context.env))
				return {
					status: "skipped",
					reason:
						"no apt-get to fetch Debian's ibverbs-providers with; exit codes are tested without it",
				};
			context.log("fetching Debian's ibverbs-providers");
			await unpackDebian(PACKAGES, home, context);
		}
		const folders = libraryFolders(home);
		const missing = LIBRARIES.filter(
			(file) => !folders.some((folder) => existsSync(join(folder, file))),
		);
		if (missing.length > 0)
			throw new BootstrapError(
				`${home} has no ${missing.join(", ")}; remove the folder to fetch ${PACKAGES.join(", ")} again.`,
			);
		return {
			status: "ready",
			detail: PACKAGES.join(", "),
			env: { KVCR_VERBS_LIBRARIES: folders.join(delimiter) },
		};
	},
};

/**
 * The folders that the dynamic loader would have to search: one per architecture triple, below `lib` and `usr/lib`.
 *
 * @param {string} home
 */
function libraryFolders(home) {
	return ["usr/lib", "lib"]
		.map((folder) => join(home, folder))
		.filter((folder) => existsSync(folder))
		.flatMap((folder) =>
			readdirSync(folder)
				.filter((name) => name.endsWith("-linux-gnu"))
				.map((name) => join(folder, name)),
		);
}
