/** What independent placement needs from the rest of an instance. */
import type { Clock } from "../ports/clock.js";
import type { KeyAdapter } from "../ports/key-adapter.js";
import type { AdviceId, BlockKey } from "../ports/names.js";
import type { HashResolver } from "../resolution/index.js";
import type { AdviceStore } from "./advice-store.js";
import type { HintOutcomeReport, PlacementOutcome } from "./outcomes.js";

/** Blocks of equal layout to be made resident from the source their advice names. */
export interface PlacementGroup {
	readonly adviceId: AdviceId;
	readonly keys: readonly BlockKey[];
	readonly layout: readonly string[];
	/** Per key what the source says its bytes hash to (XXH64), where it says so. */
	readonly checksums?: readonly (bigint | undefined)[];
}

/** The owner's side, as far as placement needs it. */
export interface PlacementPort {
	/**
	 * Runs one ordinary fetch and releases its claims again. `done` is called once, possibly before this returns, with an outcome
	 * per key, in their order. Called in owner tasks only.
	 * @throws when the group is not admitted; then `done` is not called.
	 */
	fetch(
		group: PlacementGroup,
		done: (outcomes: readonly PlacementOutcome[]) => void,
	): void;
	/** Runs a task in the owner's next API call or poll. What the task throws reaches the caller of that. */
	enqueueOwner(task: () => void): void;
}

/** What a handler needs. */
export interface IndependentHintOptions {
	readonly clock: Clock;
	readonly resolver: Pick<HashResolver, "resolve">;
	/** Absent: no key can be checked, and every hash is `unsupported`. */
	readonly adapter: KeyAdapter | undefined;
	readonly advice: AdviceStore;
	/** Slot size of the pool a label belongs to; `undefined` when there is none. */
	readonly slotBytes: (label: string) => number | undefined;
	readonly placement: PlacementPort;
	/** Milliseconds a resolution may take. */
	readonly operationTimeoutMs: number;
	/** Whether an error of `placement.fetch` must reach the caller of the API instead of failing the group alone. */
	readonly isFatal: (error: unknown) => boolean;
	/** Told of errors that are no refusal of this library: to be warned about once. */
	readonly onUnexpected: (error: unknown) => void;
	/** Told once per hash. */
	readonly report: (report: HintOutcomeReport) => void;
}
