/** A router: asks the workers what they published and has the composer write a hint. The hint's text is passed on as it is. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WorkerReport } from "../../tools/compose/inventory.js";
import { type ManagerProcess, nodeArguments } from "./manager-process.js";

const COMPOSER = fileURLToPath(
	new URL("../../tools/compose/main.ts", import.meta.url),
);

/** One entry of a plan, as the composer reads it. */
export interface RouteEntry {
	readonly from?: ManagerProcess;
	/** Explicit hashes, known or not. */
	readonly hashes?: readonly bigint[];
	readonly limit?: number;
	readonly mode?: "copy" | "move";
	readonly scope?: "independent" | "request";
	readonly allow_framework?: boolean;
	readonly force?: boolean;
}

/** What every worker published so far. */
export function reportsOf(
	workers: readonly ManagerProcess[],
): Promise<WorkerReport[]> {
	return Promise.all(workers.map((worker) => worker.call("report")));
}

/** JSON text of an envelope for `to`, made by the composer from reports. @throws what the composer says. */
export async function compose(
	reports: readonly WorkerReport[],
	to: ManagerProcess,
	...entries: readonly RouteEntry[]
): Promise<string> {
	const plan = entries.map(({ from, hashes, ...entry }) => ({
		...entry,
		...(from !== undefined && { from: from.name }),
		...(hashes !== undefined && { hashes: hashes.map(String) }),
	}));
	const folder = await mkdtemp(join(tmpdir(), "kvcr-plan-"));
	try {
		const file = join(folder, "plan.json");
		await writeFile(file, JSON.stringify(plan));
		return await runComposer(
			["--inventory", "-", "--plan", file, "--to", to.name],
			JSON.stringify(reports),
		);
	} finally {
		await rm(folder, { recursive: true });
	}
}

function runComposer(args: readonly string[], input: string): Promise<string> {
	return new Promise((resolve, reject) => {
		const child = execFile(
			process.execPath,
			[...nodeArguments(), COMPOSER, ...args],
			{ maxBuffer: 1 << 26, timeout: 30_000 },
			(error, stdout, stderr) => {
				if (error === null) resolve(stdout.trimEnd());
				else reject(new Error(stderr.trim() || error.message));
			},
		);
		child.stdin?.end(input);
	});
}

/** Request metadata that carries a hint. */
export function carrying(hint: string): {
	readonly kvTransferParams: { readonly kv_hint: string };
} {
	return { kvTransferParams: { kv_hint: hint } };
}
