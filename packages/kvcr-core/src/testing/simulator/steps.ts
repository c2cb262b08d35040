/** What each step does. A step whose peer is not there, or cannot act, does nothing. */
import type { DepositBlock } from "../../owner/calls.js";
import type { OpHandle } from "../../ports/index.js";
import type { SimBlock } from "./blocks.js";
import type { OpenCall } from "./call-book.js";
import type { FrameworkElement } from "./framework.js";
import type { SimInstance } from "./instance.js";

import { close, comeBack, lock, partition, stall } from "./process-steps.js";
import type { HintAction, Step } from "./scenario.js";
import type { Simulation } from "./simulation.js";

type StepOf<Kind extends Step["kind"]> = Extract<Step, { kind: Kind }>;

/** Does one step. */
export function perform(sim: Simulation, step: Step): void {
	if (step.kind === "partition") {
		partition(sim, step);
		return;
	}
	const instance = sim.peers[step.peer % sim.peers.length];
	if (instance === undefined || !instance.callable) return;
	switch (step.kind) {
		case "deposit":
			deposit(sim, instance, blocksOf(sim, step.blocks), step);
			return;
		case "hint":
			hint(sim, instance, step.actions, step.request);
			return;
		case "discard":
			sim.calls += 1;
			instance.call("discardHint", (kvcr) =>
				kvcr.discardHint(requestName(step.request)),
			);
			return;
		case "query":
			sim.calls += 1;
			instance.call("query", (kvcr) =>
				kvcr.query(
					blocksOf(sim, step.blocks).map(({ key }) => key),
					{ requestId: requestName(step.request) },
				),
			);
			return;
		case "fetch":
			fetch(sim, instance, blocksOf(sim, step.blocks), step.request);
			return;
		case "deliver":
			deliver(sim, instance, blocksOf(sim, step.blocks), step);
			return;
		case "release":
			release(sim, instance, step);
			return;
		case "abort":
			abort(sim, instance, step);
			return;
		case "store":
			instance.framework.store(sim.universe.at(step.block));
			return;
		case "drop":
			instance.framework.drop(sim.universe.at(step.block));
			return;
		case "rebind":
			instance.adapter.rebind(sim.universe.at(step.block));
			return;
		case "learn":
			instance.adapter.learn(sim.universe.at(step.block));
			return;
		case "lock":
			lock(sim, instance, step.ms);
			return;
		case "silence":
			instance.silentUntil = sim.clock.now() + step.ms;
			instance.calls.hinder(sim.clock.now(), step.ms);
			sim.later(step.ms, () => instance.wake());
			return;
		case "stall":
			stall(sim, instance, step.ms);
			return;
		case "crash":
			sim.events.add(`${instance.name} crashes`);
			instance.crash();
			comeBack(sim, instance, step);
			return;
		case "close":
			close(sim, instance, step);
			return;
	}
}

/** Copies blocks of the framework, or plain bytes, into managed memory. */
export function deposit(
	sim: Simulation,
	instance: SimInstance,
	wanted: readonly SimBlock[],
	how: { readonly noEvict: boolean; readonly raw: boolean },
): void {
	const blocks: SimBlock[] = [];
	const reads: FrameworkElement[] = [];
	const args: DepositBlock[] = [];
	for (const block of wanted) {
		if (!how.raw) instance.framework.store(block);
		const stored = how.raw
			? undefined
			: instance.framework.blocks.get(block.text);
		if (stored !== undefined) reads.push(...stored);
		blocks.push(block);
		args.push({
			key: block.key,
			pieces:
				stored?.map(({ piece }) => piece) ??
				block.layout.map((label, index) => ({
					label,
					bytes: block.bytes[index] as Uint8Array,
				})),
		});
	}
	begin(sim, instance, "deposit", { blocks, reads }, (kvcr) =>
		kvcr.deposit(args, { noEvict: how.noEvict }),
	);
}

/** Submits one envelope. */
export function hint(
	sim: Simulation,
	instance: SimInstance,
	actions: readonly HintAction[],
	request: number | undefined,
): void {
	const envelope = {
		protocol_version: "0.1",
		message_id: "m",
		actions: actions.map((action) => ({
			action_id: "a",
			action_type: "kv.fetch",
			action_version: "1.0",
			payload: {
				source_control_endpoint: sim.endpoint(action.source, action.alias),
				block_hashes: blocksOf(sim, action.blocks).map(({ hash }) => hash),
				mode: action.mode,
				scope: action.independent ? "independent" : "request",
				allow_framework: action.allowFramework,
			},
		})),
	};
	sim.calls += 1;
	sim.events.add(
		`${instance.name} hint ${request} ${actions.map(({ source, mode, independent, allowFramework, blocks }) => `from ${source} ${mode}${independent ? " independent" : ""}${allowFramework ? "" : " managed only"} ${blocks.join(",")}`).join("; ")}`,
	);
	instance.call("submitHint", (kvcr) =>
		kvcr.submitHint(
			envelope,
			request === undefined ? undefined : requestName(request),
		),
	);
}

/** Makes blocks of one layout resident, a call per layout. */
export function fetch(
	sim: Simulation,
	instance: SimInstance,
	wanted: readonly SimBlock[],
	request: number,
): void {
	const byLayout = new Map<readonly string[], SimBlock[]>();
	for (const block of wanted)
		byLayout.set(block.layout, [...(byLayout.get(block.layout) ?? []), block]);
	for (const [expectedLayout, blocks] of byLayout)
		begin(sim, instance, "fetch", { blocks }, (kvcr) =>
			kvcr.fetch(
				blocks.map(({ key }) => key),
				{ requestId: requestName(request), expectedLayout },
			),
		);
}

/** Copies blocks into fresh framework memory. */
export function deliver(
	sim: Simulation,
	instance: SimInstance,
	wanted: readonly SimBlock[],
	how: { readonly request: number; readonly subset: boolean },
): void {
	const blocks: SimBlock[] = [];
	const destinations: FrameworkElement[][] = [];
	for (const block of wanted) {
		const different = new Set(block.layout).size === block.layout.length;
		const labels =
			how.subset && different && block.layout.length > 1
				? block.layout.slice(-1)
				: block.layout;
		const elements = instance.framework.take(labels, "deliver", block, {});
		if (elements === undefined) continue;
		blocks.push(block);
		destinations.push(elements);
	}
	if (blocks.length === 0) return;
	begin(sim, instance, "deliver", { blocks, destinations }, (kvcr) =>
		kvcr.deliver(
			blocks.map(({ key }, index) => ({
				key,
				pieces: (destinations[index] ?? []).map(({ piece }) => piece),
			})),
			{ requestId: requestName(how.request) },
		),
	);
}

/** The name of a request. */
export function requestName(request: number): string {
	return `request-${request}`;
}

function begin(
	sim: Simulation,
	instance: SimInstance,
	kind: OpenCall["kind"],
	call: {
		readonly blocks: readonly SimBlock[];
		readonly reads?: readonly FrameworkElement[];
		readonly destinations?: readonly (readonly FrameworkElement[])[];
	},
	start: (kvcr: SimInstance["kvcr"]) => OpHandle,
): void {
	sim.calls += 1;
	sim.events.add(
		`${instance.name} ${kind} ${call.blocks.map(({ id }) => id).join(",")}`,
	);
	// What is read must hold still from the call on: the call itself may let a pin go.
	for (const one of call.reads ?? []) one.reads += 1;
	const handle = instance.call(kind, start);
	if (handle === undefined) return;
	instance.calls.began(handle, {
		kind,
		blocks: call.blocks,
		reads: call.reads ?? [],
		destinations: call.destinations ?? [],
		startedAt: sim.clock.now(),
		aborted: false,
	});
}

function release(
	sim: Simulation,
	instance: SimInstance,
	step: StepOf<"release">,
): void {
	const { calls } = instance;
	const handles = calls.takeHeld(step.pick, step.count);
	if (handles.length > 0) {
		sim.calls += 1;
		const results = instance.call("release", (kvcr) => kvcr.release(handles));
		calls.released(results ?? [], true);
	}
	const spent = calls.spent[step.pick % Math.max(1, calls.spent.length)];
	if (!step.twice || spent === undefined) return;
	sim.calls += 1;
	const again = instance.call("release", (kvcr) => kvcr.release([spent]));
	calls.released(again ?? [], false);
}

function abort(
	sim: Simulation,
	instance: SimInstance,
	step: StepOf<"abort">,
): void {
	const open = [...instance.calls.open];
	const chosen = open[step.pick % Math.max(1, open.length)];
	if (chosen === undefined) return;
	const [handle, call] = chosen;
	call.aborted = true;
	const only =
		step.only === undefined
			? undefined
			: call.blocks[step.only % call.blocks.length];
	sim.calls += 1;
	sim.events.add(`${instance.name} aborts ${call.kind} ${only?.id ?? "whole"}`);
	instance.call("abort", (kvcr) =>
		kvcr.abort(handle, only === undefined ? undefined : [only.key]),
	);
}

function blocksOf(sim: Simulation, ids: readonly number[]): SimBlock[] {
	return [...new Set(ids.map((id) => sim.universe.at(id)))];
}
