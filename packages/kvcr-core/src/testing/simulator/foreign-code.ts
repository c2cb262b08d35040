/** What an application brings along: a policy that fails now and then, and a logger that reads what it gets. */
import { FifoPolicy, FrequencyPolicy, LruPolicy } from "../../cache/index.js";
import type { BlockMeta, KVCachePolicy, Logger } from "../../ports/index.js";
import type { FaultDice } from "./faults.js";
import type { Setup } from "./scenario.js";
import type { Verdict } from "./violation.js";

/** One of the built-in policies, which throws and declines as the dice say. */
export function faultyPolicy(
	setup: Setup,
	dice: FaultDice,
	scope: string,
): KVCachePolicy {
	const inner: KVCachePolicy =
		setup.policy === "lru"
			? new LruPolicy()
			: setup.policy === "fifo"
				? new FifoPolicy()
				: new FrequencyPolicy();
	const mayThrow = (): void => {
		if (dice.roll("policyThrow", scope)) throw new Error("simulated: policy");
	};
	return {
		decideIngest: (meta, source) => {
			mayThrow();
			if (dice.roll("policyDecline", scope)) return "drop";
			return inner.decideIngest(meta, source);
		},
		evictionScore: (meta) => {
			mayThrow();
			return inner.evictionScore(meta);
		},
		decideEviction: (meta) => {
			mayThrow();
			if (dice.roll("policyDecline", scope)) return "keep";
			return inner.decideEviction(meta);
		},
		onIngest: (meta: BlockMeta) => {
			mayThrow();
			inner.onIngest?.(meta);
		},
		onRemove: (meta: BlockMeta) => {
			mayThrow();
			inner.onRemove?.(meta);
		},
		decideRecovery: () => {
			mayThrow();
			return setup.recovery;
		},
	};
}

/** Warnings that say that the instance itself has gone wrong. */
const DEFECTS: ReadonlySet<string> = new Set([
	"a control message could not be handled",
	"progress failed",
	"control channel failed to send",
	"framework reused the ID of a pin request in flight",
	"framework pinned memory that is not registered here",
]);

/** A logger that takes a report of a defect for what it is. */
export function defectLogger(name: string, verdict: Verdict): Logger {
	const read = (fields: object, message: string): void => {
		if (!DEFECTS.has(message)) return;
		const { error } = fields as { error?: unknown };
		const text = error instanceof Error ? error.stack : JSON.stringify(fields);
		verdict.broken("defect", `${name}: ${message}: ${text}`);
	};
	return { debug: read, info: read, warn: read, error: read };
}
