/**
 * Independent hints: placement into managed G2 that waits for no framework call.
 *
 * A hint's hashes are resolved at its source; each key that comes back is checked against this side's adapter and pools; what
 * passes is fetched in groups of equal layout, each under a private advice ID. Every hash ends with exactly one outcome.
 * Replies arrive on progress; checks and fetches run in the owner's turns, a bounded number of keys in each.
 */
import type { Timer } from "../ports/clock.js";
import {
	ClosedError,
	InvalidArgumentError,
	KvcrError,
} from "../ports/errors.js";
import type { AdviceId, RouterHash } from "../ports/names.js";
import type { ResolvedHash } from "../protocol/index.js";
import type { Resolution, ResolutionResult } from "../resolution/index.js";
import type { FetchAction } from "./envelope.js";
import {
	type HintOutcome,
	OutcomeReporter,
	type PlacementOutcome,
} from "./outcomes.js";
import { type BlockGroup, groupBlocks } from "./placement-groups.js";
import { PlacementLanes } from "./placement-lanes.js";
import type { IndependentHintOptions } from "./placement-port.js";

export type {
	HintOutcome,
	HintOutcomeReport,
	PlacementOutcome,
} from "./outcomes.js";
export type {
	IndependentHintOptions,
	PlacementGroup,
	PlacementPort,
} from "./placement-port.js";

/** Keys checked, and keys admitted, in one turn of the owner at most. */
export const MAX_KEYS_PER_TURN = 512;

/** Hashes of all unfinished hints together at most. A hint beyond is not begun: its hashes are `admission_failed`. */
export const MAX_OPEN_HASHES = 1_048_576;

/** One action under way. */
interface Hint {
	readonly id: string;
	readonly action: FetchAction;
	readonly source: string;
	readonly startedAt: number;
	/** Hashes without outcome. */
	open: number;
	resolution: Resolution | undefined;
	/** Set once the source left a whole group without answer: what waits of this hint ends the same way. */
	unanswered: "timeout" | "peer_unreachable" | undefined;
}

interface Intake {
	readonly hint: Hint;
	readonly hashes: readonly RouterHash[];
	readonly results: readonly ResolvedHash[];
	/** Entries before it are done with. */
	next: number;
}

interface HintGroup {
	readonly source: string;
	readonly keyCount: number;
	readonly hint: Hint;
	readonly blocks: BlockGroup;
	adviceId: AdviceId | undefined;
	ended: boolean;
}

/** Runs independent hints from submission to the last outcome. */
export class IndependentHintHandler {
	readonly #options: IndependentHintOptions;
	readonly #reporter: OutcomeReporter;
	readonly #hints = new Set<Hint>();
	/** Resolved blocks that are not checked yet, first come first served. */
	readonly #intake: Intake[] = [];
	readonly #lanes = new PlacementLanes<HintGroup>();
	#openHashes = 0;
	#submitted = 0;
	#turnAsked = false;
	#inTurn = false;
	#turnTimer: Timer | undefined;
	/** `halted`: a fatal error ended placement; what is open waits for `close`. */
	#state: "running" | "halted" | "closed" = "running";

	constructor(options: IndependentHintOptions) {
		this.#options = options;
		this.#reporter = new OutcomeReporter(
			options.clock,
			options.report,
			options.onUnexpected,
		);
	}

	/** Hints with hashes that have no outcome yet. */
	get size(): number {
		return this.#hints.size;
	}

	/** Hashes without outcome, in all hints. */
	get openHashes(): number {
		return this.#openHashes;
	}

	/**
	 * Begins placement. Returns the hint's ID in its reports.
	 * @throws InvalidArgumentError for an action without source.
	 */
	submit(action: FetchAction): string {
		const { adapter, clock, resolver, operationTimeoutMs } = this.#options;
		const { source, hashes } = action;
		if (source === undefined)
			throw new InvalidArgumentError(
				"submitHint",
				"action.source",
				source,
				"present for independent placement",
			);
		const hint: Hint = {
			id: `hint-${++this.#submitted}`,
			action,
			source,
			startedAt: clock.now(),
			open: hashes.length,
			resolution: undefined,
			unanswered: undefined,
		};
		const overloaded = this.#openHashes + hashes.length > MAX_OPEN_HASHES;
		this.#hints.add(hint);
		this.#openHashes += hashes.length;
		if (this.#state === "closed") this.#endAll(hint, hashes, "closed");
		else if (adapter === undefined) this.#endAll(hint, hashes, "unsupported");
		else if (overloaded) this.#endAll(hint, hashes, "admission_failed");
		else {
			const resolution = resolver.resolve(
				source,
				hashes,
				{
					timeoutMs: operationTimeoutMs,
					onChunk: (asked, results) => this.#resolved(hint, asked, results),
				},
				() => {
					hint.resolution = undefined;
				},
			);
			if (hint.open > 0) hint.resolution = resolution;
		}
		return hint.id;
	}

	/** Gives every hash without outcome the outcome `closed`. Nothing is fetched or reported after it. */
	close(): void {
		if (this.#state === "closed") return;
		this.#state = "closed";
		this.#turnTimer?.cancel();
		this.#turnTimer = undefined;
		for (const hint of [...this.#hints]) hint.resolution?.cancel();
		for (const { hint, hashes, next } of this.#intake.splice(0))
			this.#endAll(hint, hashes.slice(next), "closed");
		const { active, waiting } = this.#lanes.clear();
		for (const group of [...active, ...waiting])
			this.#endGroup(group, () => "closed");
		this.#reporter.flush();
	}

	#resolved(
		hint: Hint,
		asked: readonly RouterHash[],
		results: readonly ResolutionResult[],
	): void {
		const hashes: RouterHash[] = [];
		const resolved: ResolvedHash[] = [];
		for (let i = 0; i < results.length; i++) {
			const result = results[i] as ResolutionResult;
			const hash = asked[i] as RouterHash;
			if (result.status !== "resolved") this.#end(hint, hash, result.status);
			else if (this.#state === "closed") this.#end(hint, hash, "closed");
			else {
				hashes.push(hash);
				resolved.push(result);
			}
		}
		if (hashes.length === 0) return;
		this.#intake.push({ hint, hashes, results: resolved, next: 0 });
		this.#askForTurn();
	}

	#askForTurn(): void {
		if (this.#turnAsked || this.#inTurn || this.#state !== "running") return;
		this.#turnAsked = true;
		this.#options.placement.enqueueOwner(() => this.#turn());
	}

	/** The rest waits until the event loop has been around, however eagerly the owner's tasks are run. */
	#askForLaterTurn(): void {
		this.#turnAsked = true;
		this.#turnTimer = this.#options.clock.schedule(0, () => {
			this.#turnTimer = undefined;
			this.#options.placement.enqueueOwner(() => this.#turn());
		});
	}

	/** One turn of the owner. */
	#turn(): void {
		this.#turnAsked = false;
		if (this.#state !== "running" || this.#inTurn) return;
		this.#inTurn = true;
		try {
			this.#check(MAX_KEYS_PER_TURN);
			this.#admit(MAX_KEYS_PER_TURN);
		} finally {
			this.#inTurn = false;
		}
		if (this.#intake.length > 0 || this.#lanes.hasNext) this.#askForLaterTurn();
	}

	/** Checks up to `budget` resolved blocks and lines up what may be fetched. */
	#check(budget: number): void {
		const { adapter, slotBytes, onUnexpected } = this.#options;
		if (adapter === undefined) return;
		let left = budget;
		while (left > 0) {
			const intake = this.#intake[0];
			if (intake === undefined) return;
			const { hint, next } = intake;
			const end = Math.min(intake.hashes.length, next + left);
			left -= end - next;
			intake.next = end;
			if (end === intake.hashes.length) this.#intake.shift();
			const groups = groupBlocks(
				intake.hashes.slice(next, end),
				intake.results.slice(next, end),
				{
					adapter,
					slotBytes,
					rejected: (hash, outcome) => this.#end(hint, hash, outcome),
					onAdapterError: onUnexpected,
				},
			);
			for (const blocks of groups)
				this.#lanes.add({
					source: hint.source,
					keyCount: blocks.keys.length,
					hint,
					blocks,
					adviceId: undefined,
					ended: false,
				});
		}
	}

	/** Begins fetches until they have `budget` keys together; the last group may exceed it. */
	#admit(budget: number): void {
		let left = budget;
		while (left > 0 && this.#state === "running") {
			const group = this.#lanes.next();
			if (group === undefined) return;
			left -= group.keyCount;
			const { unanswered } = group.hint;
			if (unanswered !== undefined) this.#endGroup(group, () => unanswered);
			else this.#fetch(group);
		}
	}

	#fetch(group: HintGroup): void {
		const { advice, placement, isFatal, onUnexpected } = this.#options;
		const { keys, hashes, layout, checksums } = group.blocks;
		const adviceId = advice.createPrivate({ ...group.hint.action, hashes });
		group.adviceId = adviceId;
		try {
			placement.fetch({ adviceId, keys, layout, checksums }, (outcomes) =>
				this.#fetched(group, outcomes),
			);
		} catch (error) {
			const outcome =
				error instanceof ClosedError ? "closed" : "admission_failed";
			this.#endGroup(group, () => outcome);
			if (isFatal(error)) {
				this.#state = "halted";
				throw error;
			}
			if (!(error instanceof KvcrError)) onUnexpected(error);
		}
	}

	#fetched(group: HintGroup, outcomes: readonly PlacementOutcome[]): void {
		let unanswered: Hint["unanswered"];
		let answered = false;
		for (const outcome of outcomes) {
			if (outcome === "timeout" || outcome === "peer_unreachable")
				unanswered ??= outcome;
			else answered = true;
		}
		// A source that lets a whole group pass without an answer is not asked for the rest, one deadline after another.
		if (!answered) group.hint.unanswered ??= unanswered;
		this.#endGroup(group, (i) => outcomes[i] ?? "transfer_failed");
		if (this.#lanes.hasNext) this.#askForTurn();
	}

	#endGroup(
		group: HintGroup,
		outcomeAt: (index: number) => PlacementOutcome,
	): void {
		if (group.ended) return;
		group.ended = true;
		if (group.adviceId !== undefined)
			this.#options.advice.discard(group.adviceId);
		this.#lanes.end(group);
		const { hashes, blockBytes } = group.blocks;
		for (let i = 0; i < hashes.length; i++)
			this.#end(group.hint, hashes[i] as RouterHash, outcomeAt(i), blockBytes);
	}

	#endAll(
		hint: Hint,
		hashes: readonly RouterHash[],
		outcome: HintOutcome,
	): void {
		for (const hash of hashes) this.#end(hint, hash, outcome);
	}

	#end(
		hint: Hint,
		hash: RouterHash,
		outcome: HintOutcome,
		blockBytes = 0,
	): void {
		this.#openHashes--;
		if (--hint.open === 0) this.#hints.delete(hint);
		this.#reporter.report({
			hintId: hint.id,
			actionId: hint.action.actionId,
			source: hint.source,
			hash,
			outcome,
			bytes: outcome === "placed" ? blockBytes : 0,
			elapsedMs: this.#options.clock.now() - hint.startedAt,
		});
	}
}
