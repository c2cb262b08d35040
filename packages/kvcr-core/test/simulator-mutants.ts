/** Instances with one thing broken, made by patching their parts in this process; what a simulation is worth shows on them. */
import { InventoryBatcher } from "../src/cache/inventory-batcher.js";
import { PinLedger } from "../src/framework/pins.js";
import { AdviceStore } from "../src/hints/index.js";
import { FillTable } from "../src/owner/fills.js";
import { LocalCopier } from "../src/owner/local-copier.js";
import { OperationTable } from "../src/owner/operations.js";
import { HashResolver } from "../src/resolution/index.js";
import { ControlLink } from "../src/transfer/control-link.js";
import { EndedWrites } from "../src/transfer/ended-writes.js";
import { FenceTable } from "../src/transfer/fences.js";
import { Pull } from "../src/transfer/pull.js";
import { PullEngine } from "../src/transfer/pull-engine.js";
import { RouteTable } from "../src/transfer/routes.js";
import { ServeJob } from "../src/transfer/serve-job.js";
import { SourceMemory } from "../src/transfer/source-memory.js";

/** One thing broken. */
export interface Mutant {
	readonly name: string;
	/** Rules of which one must be found broken. */
	readonly rules: readonly string[];
	/** Breaks it; the returned function mends it. */
	readonly apply: () => () => void;
}

/** Replaces a method of a class. `make` gets the original. */
function patch<C extends object, K extends keyof C>(
	prototype: C,
	method: K,
	make: (original: C[K]) => C[K],
): () => void {
	const original = prototype[method];
	prototype[method] = make(original);
	return () => {
		prototype[method] = original;
	};
}

/** Replaces the getter of a property. */
function patchGetter<C extends object>(
	prototype: C,
	property: keyof C & string,
	make: (original: (this: C) => unknown) => (this: C) => unknown,
): () => void {
	const before = Object.getOwnPropertyDescriptor(
		prototype,
		property,
	) as PropertyDescriptor;
	Object.defineProperty(prototype, property, {
		...before,
		get: make(before.get as (this: C) => unknown),
	});
	return () => Object.defineProperty(prototype, property, before);
}

const all =
	(...undo: (() => void)[]) =>
	() => {
		for (const one of undo) one();
	};

/** The pulls that asked for a handle, so that a patch can look up what only the engine knows. */
function trackPulls(pulls: Map<bigint, Pull>): () => void {
	return patch(
		Pull.prototype,
		"enter",
		(original) =>
			function (this: Pull, next) {
				if (next === "requested" && this.handle !== undefined)
					pulls.set(this.handle, this);
				original.call(this, next);
			},
	);
}

const hasAll = (job: ServeJob): boolean =>
	job.claims.size === job.request.keys.length;

export const MUTANTS: readonly Mutant[] = [
	{
		name: "a source now and then forgets the claims of a write",
		rules: ["drain"],
		apply: () => {
			let count = 0;
			return patch(
				SourceMemory.prototype,
				"release",
				(original) =>
					function (this: SourceMemory, job: ServeJob) {
						count += 1;
						if (count % 10 === 0) job.claims.clear();
						original.call(this, job);
					},
			);
		},
	},
	{
		name: "a source lets go of its claims when the target's deadline passes",
		rules: ["source", "call", "defect"],
		apply: () => {
			const memories = new WeakMap<ServeJob, SourceMemory>();
			return all(
				patch(
					SourceMemory.prototype,
					"plan",
					(original) =>
						function (this: SourceMemory, job: ServeJob) {
							memories.set(job, this);
							return original.call(this, job);
						},
				),
				patch(
					ServeJob.prototype,
					"enter",
					(original) =>
						function (this: ServeJob, next) {
							original.call(this, next);
							if (next === "cancelling") memories.get(this)?.release(this);
						},
				),
			);
		},
	},
	{
		name: "no fence is ever raised",
		rules: ["destination", "write", "content", "slot"],
		apply: () => patch(FenceTable.prototype, "fence", () => () => {}),
	},
	{
		name: "a request that is over is served again",
		rules: ["destination", "refusal"],
		apply: () => patch(EndedWrites.prototype, "has", () => () => false),
	},
	{
		name: "slots are freed at the deadline instead of kept",
		rules: ["destination"],
		apply: () =>
			patch(
				FillTable.prototype,
				"discard",
				() =>
					function (this: FillTable, fill, reason) {
						this.fail(fill, reason);
					},
			),
	},
	{
		name: "framework memory is pinned although it was denied",
		rules: ["framework policy"],
		apply: () =>
			patch(
				SourceMemory.prototype,
				"claim",
				(original) =>
					function (this: SourceMemory, job: ServeJob) {
						original.call(this, job);
						return hasAll(job);
					},
			),
	},
	{
		name: "a pin held for somebody else is used although it was denied",
		rules: ["framework policy"],
		apply: () => {
			const pinned = new Set<string>();
			return all(
				patch(
					SourceMemory.prototype,
					"claim",
					(original) =>
						function (this: SourceMemory, job: ServeJob) {
							const settled = original.call(this, job);
							return settled && (job.request.allowFramework || hasAll(job));
						},
				),
				patch(
					PinLedger.prototype,
					"pieces",
					(original) =>
						function (this: PinLedger, client, text) {
							const pieces = original.call(this, client, text);
							if (pieces !== undefined) pinned.add(text);
							return pieces;
						},
				),
				patch(
					PinLedger.prototype,
					"acquire",
					(original) =>
						function (this: PinLedger, client, keys) {
							const { request } = client as ServeJob;
							return original.call(
								this,
								client,
								request.allowFramework
									? keys
									: keys.filter(({ text }) => pinned.has(text)),
							);
						},
				),
			);
		},
	},
	{
		name: "an answer to a resolution is believed from any endpoint",
		rules: ["outcome"],
		apply: () => {
			const asked = new Map<bigint, string>();
			return all(
				patch(
					ControlLink.prototype,
					"request",
					(original) =>
						function (this: ControlLink, endpoint, body) {
							if (body.type === "resolve_hashes")
								asked.set(body.resolutionId, endpoint);
							return original.call(this, endpoint, body);
						},
				),
				patch(
					HashResolver.prototype,
					"resolved",
					(original) =>
						function (this: HashResolver, message) {
							const endpoint = asked.get(message.resolutionId);
							original.call(this, {
								...message,
								header: {
									...message.header,
									...(endpoint !== undefined && {
										senderControlEndpoint: endpoint,
									}),
								},
							});
						},
				),
			);
		},
	},
	{
		name: "a refusal is believed from any endpoint",
		rules: ["destination", "write", "slot", "content"],
		apply: () => {
			const pulls = new Map<bigint, Pull>();
			return all(
				trackPulls(pulls),
				patch(
					PullEngine.prototype,
					"refused",
					(original) =>
						function (this: PullEngine, message) {
							const endpoint = pulls.get(message.opHandle)?.request.source;
							original.call(this, {
								...message,
								header: {
									...message.header,
									...(endpoint !== undefined && {
										senderControlEndpoint: endpoint,
									}),
								},
							});
						},
				),
			);
		},
	},
	{
		name: "a notification is believed from any agent",
		rules: ["destination", "content"],
		apply: () => {
			const pulls = new Map<bigint, Pull>();
			return all(
				trackPulls(pulls),
				patch(
					PullEngine.prototype,
					"writeDone",
					(original) =>
						function (this: PullEngine, from, done) {
							const name = pulls.get(done.opHandle)?.agentName;
							original.call(this, name ?? from, done);
						},
				),
			);
		},
	},
	{
		name: "a move drops the source's copy however the write ended",
		rules: ["move"],
		apply: () =>
			patch(
				SourceMemory.prototype,
				"release",
				(original) =>
					function (this: SourceMemory, job: ServeJob) {
						if (job.request.move) this.retire(job);
						original.call(this, job);
					},
			),
	},
	{
		name: "a changed route is not taken notice of",
		rules: ["recovery", "write"],
		apply: () =>
			patch(RouteTable.prototype, "resolve", (original) => {
				const known = new Map<RouteTable, Map<string, unknown>>();
				return function (this: RouteTable, header, peer) {
					const routes = known.get(this) ?? new Map();
					known.set(this, routes);
					const route =
						routes.get(header.targetAgent) ?? original.call(this, header, peer);
					if (route !== undefined) routes.set(header.targetAgent, route);
					return route as ReturnType<RouteTable["resolve"]>;
				};
			}),
	},
	{
		name: "private advice is kept",
		rules: ["drain"],
		apply: () =>
			patch(
				AdviceStore.prototype,
				"discard",
				(original) =>
					function (this: AdviceStore, id) {
						return id.startsWith("private:") ? true : original.call(this, id);
					},
			),
	},
	{
		name: "a late success counts although the caller was given up",
		rules: ["revival"],
		apply: () => {
			let inside = false;
			return all(
				patchGetter(
					Pull.prototype,
					"state",
					(original) =>
						function (this: Pull) {
							const state = original.call(this);
							return inside && state === "cancelling" ? "requested" : state;
						},
				),
				patch(
					PullEngine.prototype,
					"writeDone",
					(original) =>
						function (this: PullEngine, from, done) {
							inside = done.success;
							try {
								original.call(this, from, done);
							} finally {
								inside = false;
							}
						},
				),
			);
		},
	},
	{
		name: "an operation completes twice",
		rules: ["completion"],
		apply: () =>
			patch(
				OperationTable.prototype,
				"settle",
				(original) =>
					function (this: OperationTable, operation, index, result) {
						if (operation.results[index] !== undefined) {
							operation.results[index] = undefined;
							operation.pending += 1;
						}
						return original.call(this, operation, index, result);
					},
			),
	},
	{
		name: "a fill that was given up is called ready when its write fails",
		rules: ["content", "call", "poll", "destination"],
		apply: () =>
			patch(
				FillTable.prototype,
				"fail",
				(original) =>
					function (this: FillTable, fill, reason) {
						if (reason === "transfer_failed") this.complete(fill);
						else original.call(this, fill, reason);
					},
			),
	},
	{
		name: "a pin goes back while it is read",
		rules: ["source", "content"],
		apply: () =>
			patch(
				PinLedger.prototype,
				"retain",
				(original) =>
					function (this: PinLedger, client) {
						original.call(this, client, new Set());
					},
			),
	},
	{
		name: "a withdrawn pin request is not asked about again",
		rules: ["drain", "idle"],
		apply: () =>
			patch(
				PinLedger.prototype,
				"poll",
				(original) =>
					function (this: PinLedger) {
						if (this.counts.pending > 0 || this.counts.releasing > 0)
							original.call(this);
					},
			),
	},
	{
		name: "a block that leaves is not always announced",
		rules: ["inventory"],
		apply: () => {
			let count = 0;
			return patch(
				InventoryBatcher.prototype,
				"record",
				(original) =>
					function (this: InventoryBatcher, text, removed) {
						count += 1;
						if (!removed || count % 5 > 0) original.call(this, text, removed);
					},
			);
		},
	},
	{
		name: "a local copy takes the wrong block",
		rules: ["content"],
		apply: () =>
			patch(
				LocalCopier.prototype,
				"copy",
				(original) =>
					function (this: LocalCopier, jobs) {
						const [first, second] = jobs;
						const swapped =
							first !== undefined && second !== undefined
								? [{ ...first, sources: second.sources }, ...jobs.slice(1)]
								: jobs;
						original.call(this, swapped);
					},
			),
	},
];
