/** What the owner of one instance asked for, and what it was told: every call ends once, with one result per key. */
import type { Residency } from "../../cache/index.js";
import type { HintOutcomeReport } from "../../hints/outcomes.js";
import type { EntryResult, OperationResult } from "../../owner/operations.js";
import type { OpHandle, ReleaseHandle, RouterHash } from "../../ports/index.js";
import type { TransferError } from "../../transfer/reports.js";
import { positionsOf, type SimBlock, sameBytes } from "./blocks.js";
import { type FrameworkElement, view } from "./framework.js";
import type { Watched } from "./memory-book.js";
import type { MemoryOracle } from "./memory-oracle.js";
import type { Verdict } from "./violation.js";

/** An operation without its completion. */
export interface OpenCall {
	readonly kind: OperationResult["kind"];
	readonly blocks: readonly SimBlock[];
	readonly startedAt: number;
	/** Deposits: framework elements that are read. */
	readonly reads: readonly FrameworkElement[];
	/** Deliveries: destination elements by key position; those of one key have an owner of their own. */
	readonly destinations: readonly (readonly FrameworkElement[])[];
	aborted: boolean;
}

interface HeldClaim {
	readonly handle: ReleaseHandle;
	readonly residency: Residency;
}

/** Milliseconds a completion may be late: polls are not instant. */
const SLACK_MS = 120;

export class CallBook {
	readonly open = new Map<OpHandle, OpenCall>();
	readonly held: HeldClaim[] = [];
	/** Handles released already. */
	readonly spent: ReleaseHandle[] = [];
	/** Hashes of independent hints without outcome, by hint. */
	readonly hints = new Map<string, Set<RouterHash>>();
	/** Results per key, and outcomes per hash, seen so far. */
	results = 0;
	/** Until when the owner or the process is kept from acting, in virtual time. */
	hinderedUntil = 0;
	readonly #completed = new Set<OpHandle>();
	/** Reports of memory at risk that are not taken back: how many, by side and handle. */
	readonly #uncertain = new Map<string, number>();
	readonly #quiescedOwners = new WeakSet<object>();
	readonly #instance: Watched;
	readonly #isSelf: (endpoint: string) => boolean;
	readonly #oracle: MemoryOracle;
	readonly #verdict: Verdict;
	readonly #limits: {
		readonly operationMs: number;
		readonly abandonMs: number;
	};
	/** Framework memory of deliveries that ended `uncertain`. */
	readonly #atRisk = new Set<FrameworkElement>();

	constructor(
		instance: Watched,
		isSelf: (endpoint: string) => boolean,
		oracle: MemoryOracle,
		verdict: Verdict,
		limits: { readonly operationMs: number; readonly abandonMs: number },
	) {
		this.#instance = instance;
		this.#isSelf = isSelf;
		this.#oracle = oracle;
		this.#verdict = verdict;
		this.#limits = limits;
	}

	/** Reports of memory at risk that were not taken back. */
	get uncertain(): number {
		return this.#uncertain.size;
	}

	/** A call was accepted. */
	began(handle: OpHandle, call: OpenCall): void {
		if (this.open.has(handle) || this.#completed.has(handle))
			this.#broken("completion", "a handle was given out twice");
		this.open.set(handle, call);
	}

	/** Results came out of a poll. */
	completed(results: readonly OperationResult[]): void {
		for (const result of results) {
			const call = this.open.get(result.handle);
			if (call === undefined) {
				this.#broken(
					"completion",
					this.#completed.has(result.handle)
						? `a ${result.kind} completed twice`
						: `a ${result.kind} nobody asked for completed`,
				);
				continue;
			}
			this.open.delete(result.handle);
			this.#completed.add(result.handle);
			this.#finish(call, result);
		}
	}

	/** Hears of memory at risk. */
	report(report: TransferError): void {
		const name = `${report.side} ${report.opHandle}`;
		const before = this.#uncertain.get(name) ?? 0;
		if (report.state === "uncertain") {
			// At a source, two targets may have chosen the same handle.
			if (before > 0 && report.side === "destination")
				this.#broken("report", "memory was reported uncertain twice");
			this.#uncertain.set(name, before + 1);
			return;
		}
		if (before === 0)
			this.#broken("report", "memory quiesced that was not uncertain");
		if (before > 1) this.#uncertain.set(name, before - 1);
		else this.#uncertain.delete(name);
		if (report.side !== "destination") return;
		const elements = report.elements.filter(
			({ owner }) => owner === "framework",
		);
		for (const { label, element } of elements) {
			const found = this.#instance.framework.elements.find(
				({ piece }) => piece.label === label && piece.element === element,
			);
			if (found?.owner === undefined) continue;
			this.#quiescedOwners.add(found.owner);
			if (this.#atRisk.delete(found)) this.#instance.framework.free([found]);
		}
	}

	/** An independent hint began. */
	hinted(id: string, hashes: readonly RouterHash[]): void {
		this.hints.set(id, new Set(hashes));
	}

	/** A hash of an independent hint has its outcome. */
	outcome(report: HintOutcomeReport): void {
		this.results += 1;
		const { hintId, hash, outcome } = report;
		const open = this.hints.get(hintId);
		if (open?.delete(hash) !== true)
			this.#broken(
				"outcome",
				`${hintId} has a second outcome for a hash: ${outcome}`,
			);
		if (open?.size === 0) this.hints.delete(hintId);
		if (
			outcome === "unsupported" ||
			outcome === "integrity_failed" ||
			(outcome === "self_source" && !this.#isSelf(report.source))
		)
			this.#broken("outcome", `${outcome} without a reason`);
	}

	/** The owner, or the process, cannot act for a while. */
	hinder(now: number, ms: number): void {
		this.hinderedUntil = Math.max(this.hinderedUntil, now + ms);
	}

	/** Operations end in time. */
	checkDeadlines(now: number): void {
		const { operationMs, abandonMs } = this.#limits;
		for (const call of this.open.values()) {
			const limit = call.kind === "deliver" ? abandonMs : operationMs;
			// After a pause, what waited for the owner starts over with its own time.
			const hindered = this.hinderedUntil > call.startedAt;
			const since = hindered ? this.hinderedUntil : call.startedAt;
			const allowed = limit + (hindered ? operationMs : 0) + SLACK_MS;
			if (now - since > allowed)
				this.#broken(
					"deadline",
					`a ${call.kind} is open after ${now - call.startedAt} ms`,
				);
		}
	}

	/** Claimed blocks stay. */
	checkHeld(): void {
		for (const { residency } of this.held)
			if (residency.state !== "READY" || residency.claims === 0)
				this.#broken("claim", `a claimed block is ${residency.state}`);
	}

	/** Takes held claims out, to be released. */
	takeHeld(pick: number, count: number): ReleaseHandle[] {
		const start = this.held.length === 0 ? 0 : pick % this.held.length;
		return this.held.splice(start, count).map(({ handle }) => handle);
	}

	/** What a release said. */
	released(
		results: readonly {
			readonly handle: ReleaseHandle;
			readonly released: boolean;
		}[],
		first: boolean,
	): void {
		for (const { handle, released } of results) {
			if (released !== first)
				this.#broken(
					"release",
					first
						? "a handle could not be released"
						: "a handle was released twice",
				);
			if (first) this.spent.push(handle);
		}
	}

	#finish(call: OpenCall, result: OperationResult): void {
		const { framework } = this.#instance;
		for (const one of call.reads) one.reads -= 1;
		if (
			result.kind !== call.kind ||
			result.entries.length !== call.blocks.length
		)
			this.#broken(
				"completion",
				`a ${call.kind} has other entries than its call`,
			);
		for (const [index, block] of call.blocks.entries()) {
			const entry = result.entries[index];
			this.results += 1;
			if (entry === undefined || !sameBytes(entry.key, block.key)) {
				this.#broken("completion", `a ${call.kind} lacks the result of a key`);
				continue;
			}
			if ((entry.status === "SUCCESS") !== (entry.reason === undefined))
				this.#broken(
					"completion",
					`${entry.status} with reason ${entry.reason}`,
				);
			if (entry.reason === "aborted" && !call.aborted)
				this.#broken("completion", "an entry that nobody gave up is aborted");
			if (entry.releaseHandle !== undefined) this.#hold(block, entry);
			if (call.kind === "fetch" && entry.status === "SUCCESS")
				this.#checkFetched(block, entry);
			const elements = call.destinations[index] ?? [];
			if (entry.reason === "uncertain") {
				if (call.kind !== "deliver")
					this.#broken("completion", `a ${call.kind} is uncertain`);
				const owner = elements[0]?.owner;
				if (owner !== undefined && this.#quiescedOwners.has(owner))
					framework.free(elements);
				else for (const one of elements) this.#atRisk.add(one);
			} else {
				if (entry.status === "SUCCESS") this.#checkDelivered(block, elements);
				framework.free(elements);
			}
		}
	}

	#hold(block: SimBlock, entry: EntryResult): void {
		const residency = this.#instance.parts.cache?.get(block.text);
		if (residency?.state !== "READY" || residency.claims === 0) {
			this.#broken(
				"claim",
				`block ${block.id} came with a claim and is ${residency?.state}`,
			);
			return;
		}
		this.held.push({ handle: entry.releaseHandle as ReleaseHandle, residency });
	}

	#checkFetched(block: SimBlock, entry: EntryResult): void {
		if (
			entry.pieces?.length !== block.layout.length ||
			entry.releaseHandle === undefined
		) {
			this.#broken(
				"completion",
				`block ${block.id} was fetched without pieces or claim`,
			);
			return;
		}
		for (const [index, { region, element }] of entry.pieces.entries()) {
			if (region.released) continue;
			const right = block.bytes[index] as Uint8Array;
			const holder = this.#oracle.holder(this.#instance, region, element);
			if (
				holder?.keyText !== block.text ||
				!sameBytes(region.element(element), right)
			)
				this.#broken(
					"content",
					`block ${block.id} was fetched with wrong bytes`,
				);
		}
	}

	#checkDelivered(
		block: SimBlock,
		elements: readonly FrameworkElement[],
	): void {
		const positions = positionsOf(
			block,
			elements.map(({ piece }) => piece.label),
		);
		for (const [index, one] of elements.entries()) {
			// Memory ends with its agent; what came at the very end cannot be looked at.
			if (one.piece.region.released) continue;
			const right = block.bytes[positions[index] as number] as Uint8Array;
			if (!sameBytes(view(one), right))
				this.#broken(
					"content",
					`block ${block.id} was delivered with wrong bytes`,
				);
		}
	}

	#broken(rule: string, message: string): void {
		this.#verdict.broken(rule, `${this.#instance.name}: ${message}`);
	}
}
