/** The distribution's RDMA user space, which the bootstrap unpacks for tests: putting it in the loader's way. */
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

const folders = (process.env.KVCR_VERBS_LIBRARIES ?? "")
	.split(delimiter)
	.filter((folder) => folder !== "" && existsSync(folder));

/** The environment in which a process finds the libraries as if they were installed, or undefined where they are not here. */
export const verbsEnvironment: Record<string, string> | undefined =
	folders.length === 0
		? undefined
		: {
				LD_LIBRARY_PATH: folders.join(delimiter),
				RDMAV_DRIVERS: drivers().join(delimiter),
			};

/** Whether the machine has the libraries anyway. */
export const verbsInstalled = [
	"/usr/lib/x86_64-linux-gnu/libibverbs.so.1",
	"/usr/lib/aarch64-linux-gnu/libibverbs.so.1",
	"/usr/lib64/libibverbs.so.1",
].some((path) => existsSync(path));

/** The drivers of RDMA devices by path, which is looked at in place of the folder that is compiled in. */
function drivers(): string[] {
	const suffix = /-rdmav\d+\.so$/;
	return folders
		.map((folder) => join(folder, "libibverbs"))
		.filter((folder) => existsSync(folder))
		.flatMap((folder) =>
			readdirSync(folder)
				.filter((name) => suffix.test(name))
				.map((name) => join(folder, name.replace(suffix, ""))),
		);
}
