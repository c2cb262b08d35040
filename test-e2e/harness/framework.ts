/** A framework of a worker: its own memory, blocks it keeps there, and pins on them. */
import {
	type BlockKey,
	type FrameworkPiece,
	type FrameworkPins,
	type GrantedPin,
	keyText,
	type MemoryRegion,
	type PinHandle,
	type PinRequestId,
} from "kvcr-core";
import { pieceBytes } from "./blocks.js";
import type { BlockSpec } from "./commands.js";

export class WorkerFramework implements FrameworkPins {
	readonly #regions: readonly MemoryRegion[];
	readonly #blocks = new Map<string, readonly FrameworkPiece[]>();
	readonly #next = new Map<string, number>();
	readonly #pins = new Set<PinHandle>();
	#requests = 0n;
	#answers: (readonly [PinRequestId, GrantedPin | undefined])[] = [];
	#wake: (() => void) | undefined;

	/** @param regions One per pool, called like it. */
	constructor(regions: readonly MemoryRegion[], blocks: readonly BlockSpec[]) {
		this.#regions = regions;
		for (const { key, layout = ["kv"] } of blocks) {
			const pieces = this.take(layout);
			this.#blocks.set(keyText(key), pieces);
			for (const [index, { region, element }] of pieces.entries()) {
				region
					.element(element)
					.set(pieceBytes(key, index, region.elementBytes));
			}
		}
	}

	/** Pins that were granted and not released. */
	get pinned(): number {
		return this.#pins.size;
	}

	/** Takes elements of framework memory for a layout. They are used in turn; tests never need all at once. */
	take(layout: readonly string[]): FrameworkPiece[] {
		return layout.map((label) => {
			const region = this.#regions.find((one) => one.label === label);
			if (region === undefined) throw new Error(`no framework region ${label}`);
			const element = this.#next.get(label) ?? 0;
			this.#next.set(label, (element + 1) % region.elementCount);
			return { label, region, element };
		});
	}

	attach(wake: () => void): void {
		this.#wake = wake;
	}

	request(keys: readonly BlockKey[]): PinRequestId {
		this.#requests += 1n;
		const id = this.#requests;
		const blocks = new Map(
			keys.map((key) => [key, this.#blocks.get(keyText(key))] as const),
		);
		const any = [...blocks.values()].some((pieces) => pieces !== undefined);
		const handle = `pin-${id}`;
		if (any) this.#pins.add(handle);
		this.#answers.push([id, any ? { handle, blocks } : undefined]);
		setImmediate(() => this.#wake?.());
		return id;
	}

	pollResults(): Iterable<readonly [PinRequestId, GrantedPin | undefined]> {
		const answers = this.#answers;
		this.#answers = [];
		return answers;
	}

	cancel(): void {
		// Its answer still comes, and is released then.
	}

	release(handle: PinHandle): boolean {
		return this.#pins.delete(handle);
	}
}
