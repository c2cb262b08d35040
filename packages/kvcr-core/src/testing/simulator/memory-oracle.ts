/**
 * Knows of every byte of every instance who may write it, who may read it, and what it must hold; and of every write, from
 * the fabric's side, whether it can still land. Believes nothing an instance says about itself.
 */
import type { Residency } from "../../cache/index.js";
import type { MemoryRegion, WriteRequest } from "../../ports/index.js";
import { keyText } from "../../ports/index.js";
import {
	decodeNotification,
	type StartWriteMessage,
} from "../../protocol/index.js";
import type { ScriptedWrite } from "../scripted-write.js";
import { type BlockUniverse, sameBytes } from "./blocks.js";
import type { FrameworkElement } from "./framework.js";
import type {
	Ask,
	Destination,
	LiveWrite,
	Source,
	Watched,
} from "./memory-book.js";
import type { Verdict } from "./violation.js";

export class MemoryOracle {
	readonly #universe: BlockUniverse;
	readonly #verdict: Verdict;
	readonly #live = new Set<LiveWrite>();

	constructor(universe: BlockUniverse, verdict: Verdict) {
		this.#universe = universe;
		this.#verdict = verdict;
	}

	/** Writes that can still land. */
	get live(): ReadonlySet<LiveWrite> {
		return this.#live;
	}

	/** Watches the memory of a new instance. */
	watch(instance: Watched): void {
		const { cache } = instance.parts;
		if (cache === undefined) return;
		for (const region of instance.pools.values())
			instance.book.slots.set(
				region,
				new Array<Residency | undefined>(region.elementCount).fill(undefined),
			);
		const { admit, completeFill, retire } = cache;
		cache.admit = (...args) => {
			const outcomes = admit.apply(cache, args);
			for (const outcome of outcomes)
				if (outcome.kind === "reserved")
					this.#reserved(instance, outcome.residency);
			return outcomes;
		};
		cache.completeFill = (residency) => {
			completeFill.call(cache, residency);
			const { ready } = instance.book;
			ready.set(residency.keyText, (ready.get(residency.keyText) ?? 0) + 1);
			this.#checkReady(instance, residency, "became ready");
		};
		cache.retire = (residency) => {
			if (!instance.book.movedOut.has(residency))
				this.#verdict.broken(
					"move",
					`${instance.name} retires ${this.#name(residency.keyText)}, which no completed move has written`,
				);
			return retire.call(cache, residency);
		};
	}

	/** An instance sends a `start_write`. */
	asked(instance: Watched, message: StartWriteMessage, source: string): Ask {
		const ask: Ask = {
			handle: message.opHandle,
			source,
			move: message.mode === "move",
			allowFramework: message.allowFramework,
			texts: message.keys.map(keyText),
			destinations: message.dstDescriptors.map((elements) =>
				elements.map((element) => this.#destination(instance, element)),
			),
			writes: [],
		};
		instance.book.asks.set(ask.handle, ask);
		return ask;
	}

	/** A write was posted. Undefined when it must not have been. */
	posted(
		from: Watched,
		to: Watched | undefined,
		write: ScriptedWrite,
		request: WriteRequest,
		addresses: readonly bigint[],
	): LiveWrite | undefined {
		const done = decodeNotification(request.notification);
		const ask = done && to?.book.asks.get(done.opHandle);
		if (done === undefined || ask === undefined) {
			this.#verdict.broken(
				"write",
				`${from.name} writes to ${write.to} what it did not ask for`,
			);
			return undefined;
		}
		const targets = done.completedIndices.flatMap(
			(index) => ask.destinations[index] ?? [],
		);
		const texts = done.completedIndices.flatMap((index) =>
			(ask.destinations[index] ?? []).map(() => ask.texts[index] as string),
		);
		if (targets.length !== request.pairs.length)
			this.#verdict.broken(
				"write",
				`${from.name} writes ${request.pairs.length} pieces instead of ${targets.length}`,
			);
		const sources = request.pairs.map((pair, at): Source => {
			const target = targets[at];
			const addr = addresses[pair.remoteRegion];
			if (
				target?.region.descriptor.addr !== addr ||
				target?.element !== pair.remoteElement
			)
				this.#verdict.broken(
					"write",
					`${from.name} writes to another element than ${to?.name} asked for`,
				);
			return this.#source(from, ask, pair, texts[at] as string);
		});
		const live: LiveWrite = {
			write,
			from,
			to,
			ask,
			indices: done.completedIndices,
			sources,
			targets,
			cancelled: false,
			done: false,
			plainlyNotified: false,
		};
		ask.writes.push(live);
		this.#live.add(live);
		this.checkWrite(live);
		return live;
	}

	/** All bytes of a write landed. */
	landed(live: LiveWrite): void {
		live.done = true;
		if (!live.ask.move || live.cancelled) return;
		for (const source of live.sources)
			if (source.kind === "slot") live.from.book.movedOut.add(source.residency);
	}

	/** Checks every write that can still land. */
	check(): void {
		for (const live of this.#live) {
			if (live.write.state === "ended") this.#live.delete(live);
			else this.checkWrite(live);
		}
	}

	/** The memory a write touches belongs to it, on both sides. */
	checkWrite(live: LiveWrite): void {
		const { from, to, ask } = live;
		if (to?.alive) {
			for (const target of live.targets) {
				const problem = this.#targetProblem(to, target);
				if (problem !== undefined)
					this.#verdict.broken(
						"destination",
						`${to.name} ${problem} while the write of ${from.name} for ${ask.handle < 0n ? "a fill" : "a delivery"} can still land`,
					);
			}
		}
		if (!from.alive) return;
		for (const source of live.sources) {
			const problem = this.#sourceProblem(from, source);
			if (problem !== undefined)
				this.#verdict.broken(
					"source",
					`${from.name} ${problem} while its write to ${to?.name} reads it`,
				);
		}
	}

	/** Every ready block of an instance holds its own bytes. */
	checkContent(instance: Watched): void {
		const { cache } = instance.parts;
		if (cache === undefined || !instance.alive) return;
		const seen = new Set<Residency>();
		for (const slots of instance.book.slots.values())
			for (const residency of slots) {
				if (residency?.state !== "READY" || seen.has(residency)) continue;
				seen.add(residency);
				this.#checkReady(instance, residency, "holds");
			}
		try {
			cache.assertConsistent();
		} catch (error) {
			this.#verdict.broken("cache", `${instance.name}: ${String(error)}`);
		}
	}

	/** Ready blocks of an instance, by key text. */
	readyBlocks(instance: Watched): Set<string> {
		const ready = new Set<string>();
		for (const slots of instance.book.slots.values())
			for (const residency of slots)
				if (residency?.state === "READY") ready.add(residency.keyText);
		return ready;
	}

	/** The residency a slot belongs to now. */
	holder(
		instance: Watched,
		region: MemoryRegion,
		slot: number,
	): Residency | undefined {
		const residency = instance.book.slots.get(region)?.[slot];
		return residency !== undefined && isFreed(residency)
			? undefined
			: residency;
	}

	#reserved(instance: Watched, residency: Residency): void {
		const { cache } = instance.parts;
		for (const { region, slot } of cache?.pieces(residency) ?? []) {
			const former = this.holder(instance, region, slot);
			if (former !== undefined)
				this.#verdict.broken(
					"slot",
					`${instance.name} gives slot ${slot} of ${region.label} to ${this.#name(residency.keyText)} while ${this.#name(former.keyText)} is ${former.state} in it`,
				);
			const slots = instance.book.slots.get(region);
			if (slots !== undefined) slots[slot] = residency;
		}
		// Whoever had these slots before must not be written, nor read, any more.
		this.check();
	}

	#destination(
		instance: Watched,
		element: StartWriteMessage["dstDescriptors"][number][number],
	): Destination {
		const { label, elementIndex, framework } = element;
		if (framework) {
			const region = instance.framework.regions.find(
				(one) => one.label === label,
			) as MemoryRegion;
			const owner = instance.framework.find(region, elementIndex)?.owner;
			return { kind: "framework", region, element: elementIndex, owner };
		}
		const region = instance.pools.get(label) as MemoryRegion;
		const residency = this.holder(instance, region, elementIndex);
		return { kind: "slot", region, element: elementIndex, residency };
	}

	#source(
		from: Watched,
		ask: Ask,
		pair: WriteRequest["pairs"][number],
		text: string,
	): Source {
		const { region, element } = pair;
		if (from.book.slots.has(region)) {
			const residency = this.holder(from, region, element);
			if (residency?.keyText !== text)
				this.#verdict.broken(
					"content",
					`${from.name} reads slot ${element} of ${region.label} for ${this.#name(text)}, which is not in it`,
				);
			return {
				kind: "slot",
				residency: residency as Residency,
				region,
				element,
			};
		}
		const found = from.framework.find(region, element) as FrameworkElement;
		if (!ask.allowFramework)
			this.#verdict.broken(
				"framework policy",
				`${from.name} serves ${this.#name(text)} from framework memory, which was denied`,
			);
		if (found.block?.text !== text)
			this.#verdict.broken(
				"content",
				`${from.name} reads framework memory for ${this.#name(text)}, which is not in it`,
			);
		return { kind: "framework", element: found, block: found.block };
	}

	#targetProblem(to: Watched, target: Destination): string | undefined {
		const { region, element } = target;
		if (target.kind === "framework") {
			const owner = to.framework.find(region, element)?.owner;
			return owner !== undefined && owner === target.owner
				? undefined
				: `reuses framework element ${element} of ${region.label}`;
		}
		const { residency } = target;
		const name = residency && this.#name(residency.keyText);
		if (residency === undefined || isFreed(residency))
			return `frees slot ${element} of ${region.label} (${name})`;
		if (this.holder(to, region, element) !== residency)
			return `reuses slot ${element} of ${region.label}`;
		return residency.state === "READY"
			? `calls ${name} in slot ${element} ready`
			: undefined;
	}

	#sourceProblem(from: Watched, source: Source): string | undefined {
		if (source.kind === "framework") {
			const { element, block } = source;
			return element.pins > 0 && element.block === block
				? undefined
				: `lets a pin on ${this.#name(block?.text)} go`;
		}
		const { residency, region, element } = source;
		if (residency === undefined) return undefined;
		const name = this.#name(residency.keyText);
		if (residency.state !== "READY")
			return `lets ${name} be ${residency.state}`;
		if (residency.claims === 0) return `lets the claim on ${name} go`;
		return this.holder(from, region, element) === residency
			? undefined
			: `reuses the slot of ${name}`;
	}

	#checkReady(instance: Watched, residency: Residency, verb: string): void {
		const block = this.#universe.find(residency.keyText);
		const bytes = instance.parts.cache?.bytesOf(residency) ?? [];
		for (const [index, piece] of bytes.entries()) {
			const right = block?.bytes[index];
			if (right === undefined || !sameBytes(piece, right))
				this.#verdict.broken(
					"content",
					`${instance.name}: ${this.#name(residency.keyText)} ${verb} with wrong bytes in piece ${index}`,
				);
		}
	}

	#name(text: string | undefined): string {
		const block = text === undefined ? undefined : this.#universe.find(text);
		return block === undefined ? "an unknown block" : `block ${block.id}`;
	}
}

function isFreed(residency: Residency): boolean {
	const { state } = residency;
	return state === "EVICTED" || state === "RETIRED" || state === "FREED";
}
