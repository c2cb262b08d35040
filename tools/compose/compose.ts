/** Builds hint envelopes from what workers hold, the way a KV-aware router does. */
import {
	type ComposeFetchOptions,
	composeKvHint,
	InvalidArgumentError,
	stringifyKvHint,
} from "kvcr-core";
import { ROUTER_HINT_CAPABILITY } from "kvcr-vllm-adapter";
import { WorkerInventory, type WorkerReport } from "./inventory.js";

/** One thing to bring to the destination. */
export interface PlanEntry {
	/** Only from this worker, which may be the destination itself. @default whoever holds a block, in the order of the reports */
	readonly from?: string;
	/** These hashes, known or not. Needs `from`. @default what the sources hold and the destination lacks */
	readonly hashes?: readonly bigint[];
	/** At most this many hashes. */
	readonly limit?: number;
	/** @default "copy" */
	readonly mode?: "copy" | "move";
	/** @default "independent" */
	readonly scope?: "independent" | "request";
	/** @default true */
	readonly allowFramework?: boolean;
	/** Name workers that do not advertise {@link ROUTER_HINT_CAPABILITY} too. @default false */
	readonly force?: boolean;
}

/** What to compose. */
export interface ComposePlan {
	readonly reports: readonly WorkerReport[];
	/** The worker the envelope is for. */
	readonly to: string;
	readonly entries: readonly PlanEntry[];
}

/** There is nothing the destination could be told to get. */
export class NothingToComposeError extends Error {
	constructor(to: string) {
		super(`compose: no worker holds a block that ${JSON.stringify(to)} lacks`);
		this.name = "NothingToComposeError";
	}
}

/**
 * JSON text of an envelope.
 * @throws InvalidArgumentError for workers that are not known or not capable, NothingToComposeError, InvalidHintError.
 */
export function composeEnvelope(plan: ComposePlan): string {
	const workers = new Map<string, WorkerInventory>();
	for (const report of plan.reports) {
		if (workers.has(report.worker))
			throw new InvalidArgumentError(
				"compose",
				"inventory.worker",
				report.worker,
				"one report per worker",
			);
		workers.set(report.worker, new WorkerInventory(report));
	}
	const to = workerOf(workers, plan.to, "to");
	const actions = plan.entries.flatMap((entry) =>
		actionsOf(entry, to, workers),
	);
	if (actions.length === 0) throw new NothingToComposeError(plan.to);
	return stringifyKvHint(composeKvHint({ actions }));
}

function actionsOf(
	entry: PlanEntry,
	to: WorkerInventory,
	workers: ReadonlyMap<string, WorkerInventory>,
): ComposeFetchOptions[] {
	const { mode = "copy", scope = "independent", allowFramework = true } = entry;
	const common = { mode, scope, allowFramework };
	const usable = (worker: WorkerInventory): boolean =>
		entry.force === true ||
		scope === "request" ||
		worker.capabilities.has(ROUTER_HINT_CAPABILITY);
	const from =
		entry.from === undefined
			? undefined
			: workerOf(workers, entry.from, "from");
	if (from !== undefined && !usable(from))
		throw new InvalidArgumentError(
			"compose",
			"from",
			from.name,
			`a worker that advertises ${ROUTER_HINT_CAPABILITY}: its hashes cannot be resolved otherwise`,
		);
	if (entry.hashes !== undefined) {
		if (from === undefined)
			throw new InvalidArgumentError(
				"compose",
				"from",
				undefined,
				"given together with hashes",
			);
		return [{ ...common, source: from.endpoint, hashes: entry.hashes }];
	}
	const held = new Set(from === to ? [] : to.all());
	let left = entry.limit ?? Number.POSITIVE_INFINITY;
	const actions: ComposeFetchOptions[] = [];
	for (const worker of from ? [from] : workers.values()) {
		if (from === undefined && (worker === to || !usable(worker))) continue;
		const offered =
			scope === "request" && allowFramework
				? worker.inHostMemory()
				: worker.managed();
		const hashes = offered.filter((hash) => !held.has(hash)).slice(0, left);
		if (hashes.length === 0) continue;
		left -= hashes.length;
		// One source per block: what the first one offers is not asked of the next.
		for (const hash of hashes) held.add(hash);
		actions.push({ ...common, source: worker.endpoint, hashes });
	}
	return actions;
}

function workerOf(
	workers: ReadonlyMap<string, WorkerInventory>,
	name: string,
	argument: string,
): WorkerInventory {
	const worker = workers.get(name);
	if (worker !== undefined) return worker;
	throw new InvalidArgumentError(
		"compose",
		argument,
		name,
		`one of the workers ${[...workers.keys()].map((known) => JSON.stringify(known)).join(", ")}`,
	);
}
