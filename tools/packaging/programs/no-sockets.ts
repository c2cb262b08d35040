/** Loading the core's main entry loads nothing of Node that could open a socket, a thread or a process. */
import { deepStrictEqual } from "node:assert";

/** Modules of Node that reach out of the process. */
const OUTSIDE =
	/^NativeModule (net|tls|dgram|dns|http2?|https|child_process|cluster|worker_threads)$/;

async function program(): Promise<void> {
	const { moduleLoadList } = process as unknown as {
		readonly moduleLoadList: readonly string[];
	};
	// Node loads some of them for itself, to print into a pipe for example.
	const before = new Set(moduleLoadList);
	const core = await import("kvcr-core");
	deepStrictEqual(typeof core.Kvcr, "function");
	deepStrictEqual(
		moduleLoadList.filter((name) => !before.has(name) && OUTSIDE.test(name)),
		[],
	);
	deepStrictEqual(
		process
			.getActiveResourcesInfo()
			.filter((name) => /TCP|UDP|Pipe.*Server|DNS/.test(name)),
		[],
	);
}

program().then(
	() => console.log("ok"),
	(error: unknown) => {
		console.error(error);
		process.exit(1);
	},
);
