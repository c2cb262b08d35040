/** The inference framework of one simulated process: its memory, what it keeps there, and its pins. */
import {
	type BlockKey,
	type FrameworkPiece,
	type FrameworkPins,
	type GrantedPin,
	keyText,
	type MemoryRegion,
	type PinHandle,
	type PinRequestId,
	type TransferAgent,
} from "../../ports/index.js";
import type { ManualClock } from "../manual-clock.js";
import type { BlockUniverse, SimBlock } from "./blocks.js";
import { POOL_BYTES } from "./blocks.js";
import type { FaultDice } from "./faults.js";
import type { SimClock } from "./sim-clock.js";

/** Elements of each region. */
const ELEMENTS = 28;

/** One element of framework memory and what it is used for. */
export interface FrameworkElement {
	readonly piece: FrameworkPiece;
	/** `block`: a cached block. `deliver`: destination of an operation. */
	use: "free" | "block" | "deliver";
	/** The cached block, or the one to be delivered. */
	block: SimBlock | undefined;
	/** What owns the element as a destination; it changes with every use. */
	owner: object | undefined;
	/** Deposits that read it, and pins that were granted and not taken back. */
	reads: number;
	pins: number;
}

interface Pin {
	readonly handle: PinHandle;
	readonly elements: readonly FrameworkElement[];
}

/** Told when the framework breaks, or would break, a rule on behalf of the instance. */
export type Complain = (rule: string, message: string) => void;

/** What a framework lives in. */
export interface FrameworkOptions {
	readonly universe: BlockUniverse;
	readonly dice: FaultDice;
	readonly world: ManualClock;
	readonly clock: SimClock;
	/** For the dice. */
	readonly name: string;
	/** Told of every key a pin is asked for. */
	readonly mayPin: (text: string) => void;
	readonly complain: Complain;
}

export class SimFramework implements FrameworkPins {
	readonly regions: readonly MemoryRegion[];
	/** Blocks the framework keeps, by key text. */
	readonly blocks = new Map<string, readonly FrameworkElement[]>();
	readonly #elements: FrameworkElement[];
	readonly #pins = new Map<PinHandle, Pin>();
	readonly #answers: [PinRequestId, GrantedPin | undefined][] = [];
	readonly #waiting = new Set<PinRequestId>();
	readonly #cancelled = new Set<PinRequestId>();
	readonly #universe: BlockUniverse;
	readonly #dice: FaultDice;
	readonly #world: ManualClock;
	readonly #clock: SimClock;
	readonly #name: string;
	/** Whether a request may name the key at all. */
	readonly #mayPin: (text: string) => void;
	readonly #complain: Complain;
	#nextRequest = 1n;
	#nextPin = 1;
	#wake: (() => void) | undefined;

	private constructor(
		options: FrameworkOptions,
		regions: readonly MemoryRegion[],
	) {
		this.regions = regions;
		this.#universe = options.universe;
		this.#dice = options.dice;
		this.#world = options.world;
		this.#clock = options.clock;
		this.#name = options.name;
		this.#mayPin = options.mayPin;
		this.#complain = options.complain;
		this.#elements = regions.flatMap((region) =>
			Array.from({ length: region.elementCount }, (_, element) => ({
				piece: { label: region.label, region, element },
				use: "free" as const,
				block: undefined,
				owner: undefined,
				reads: 0,
				pins: 0,
			})),
		);
	}

	/** Allocates its memory with the agent. */
	static async create(
		agent: TransferAgent,
		options: FrameworkOptions,
	): Promise<SimFramework> {
		const regions: MemoryRegion[] = [];
		for (const [label, elementBytes] of Object.entries(POOL_BYTES))
			regions.push(
				await agent.createRegion({
					label,
					elementBytes,
					elementCount: ELEMENTS,
				}),
			);
		return new SimFramework(options, regions);
	}

	/** Pins granted and not taken back, and requests without an answer taken. */
	get open(): { readonly pins: number; readonly requests: number } {
		return {
			pins: this.#pins.size,
			requests: this.#waiting.size + this.#answers.length,
		};
	}

	get elements(): readonly FrameworkElement[] {
		return this.#elements;
	}

	/** The element behind a region and index. */
	find(region: MemoryRegion, element: number): FrameworkElement | undefined {
		return this.#elements.find(
			({ piece }) => piece.region === region && piece.element === element,
		);
	}

	/** Free elements for pieces of these labels, taken; undefined when there are too few. */
	take(
		labels: readonly string[],
		use: "block" | "deliver",
		block: SimBlock,
		owner: object,
	): FrameworkElement[] | undefined {
		const taken: FrameworkElement[] = [];
		for (const label of labels) {
			const found = this.#elements.find(
				(one) =>
					one.use === "free" &&
					one.piece.label === label &&
					!taken.includes(one),
			);
			if (found === undefined) return undefined;
			taken.push(found);
		}
		for (const one of taken) {
			one.use = use;
			one.block = block;
			one.owner = owner;
			scribble(one, 0xd1);
		}
		return taken;
	}

	/** Gives elements back to the framework, which uses them at once. */
	free(elements: readonly FrameworkElement[]): void {
		for (const one of elements) {
			one.use = "free";
			one.block = undefined;
			one.owner = undefined;
			scribble(one, 0xee);
		}
	}

	/** Keeps a block. */
	store(block: SimBlock): void {
		if (this.blocks.has(block.text)) return;
		const elements = this.take(block.layout, "block", block, block);
		if (elements === undefined) return;
		for (const [index, one] of elements.entries())
			view(one).set(block.bytes[index] as Uint8Array);
		this.blocks.set(block.text, elements);
	}

	/** Drops a block and overwrites its memory, unless somebody reads it. */
	drop(block: SimBlock): boolean {
		const elements = this.blocks.get(block.text);
		if (elements?.some((one) => one.pins > 0 || one.reads > 0) !== false)
			return false;
		this.blocks.delete(block.text);
		this.free(elements);
		return true;
	}

	attach(wake: () => void): void {
		this.#wake = wake;
	}

	request(keys: readonly BlockKey[]): PinRequestId {
		for (const key of keys) this.#mayPin(keyText(key));
		if (this.#dice.roll("pinThrow", this.#name))
			throw new Error("simulated: pin request");
		const id = this.#nextRequest++;
		const texts = keys.map(keyText);
		const late = this.#dice.roll("pinLate", this.#name);
		const random = this.#dice.random(`${this.#name} pins`);
		const ms = late ? random.between(50, 900) : random.pick([0, 0, 3]);
		this.#waiting.add(id);
		this.#world.schedule(ms, () => {
			if (!this.#waiting.delete(id)) return;
			// A cancelled request may be answered all the same.
			if (this.#cancelled.delete(id) && random.chance(0.5)) return;
			this.#answers.push([id, this.#grant(texts)]);
			if (random.chance(0.5)) this.#clock.gate(() => this.#wake?.());
		});
		return id;
	}

	pollResults(): Iterable<readonly [PinRequestId, GrantedPin | undefined]> {
		if (this.#dice.roll("pinThrow", this.#name))
			throw new Error("simulated: pin results");
		return this.#answers.splice(0);
	}

	cancel(request: PinRequestId): void {
		if (this.#waiting.has(request)) this.#cancelled.add(request);
		if (this.#dice.roll("pinThrow", this.#name))
			throw new Error("simulated: pin cancel");
	}

	release(handle: PinHandle): boolean {
		const pin = this.#pins.get(handle);
		if (pin === undefined) {
			this.#complain("pins", `pin ${handle} released twice or never granted`);
			return true;
		}
		if (this.#dice.roll("pinThrow", this.#name))
			throw new Error("simulated: pin release");
		if (this.#dice.roll("pinRefuseRelease", this.#name)) return false;
		this.#pins.delete(handle);
		const blocks = new Set<SimBlock>();
		for (const one of pin.elements) {
			one.pins -= 1;
			if (one.block !== undefined) blocks.add(one.block);
		}
		// The framework had only waited for this.
		for (const block of blocks)
			if (this.#dice.random(`${this.#name} pins`).chance(0.5)) this.drop(block);
		return true;
	}

	#grant(texts: readonly string[]): GrantedPin | undefined {
		if (this.#dice.roll("pinDeny", this.#name)) return undefined;
		const blocks = new Map<BlockKey, readonly FrameworkPiece[] | undefined>();
		const elements: FrameworkElement[] = [];
		for (const text of texts) {
			const block = this.#universe.find(text);
			const kept = this.blocks.get(text);
			if (block === undefined) continue;
			blocks.set(
				block.key,
				kept?.map((one) => one.piece),
			);
			elements.push(...(kept ?? []));
		}
		if (elements.length === 0) return undefined;
		for (const one of elements) one.pins += 1;
		const pin = { handle: `${this.#name}-pin-${this.#nextPin++}`, elements };
		this.#pins.set(pin.handle, pin);
		return { handle: pin.handle, blocks };
	}
}

/** The bytes of an element. */
export function view(element: FrameworkElement): Uint8Array {
	return element.piece.region.element(element.piece.element);
}

function scribble(element: FrameworkElement, value: number): void {
	if (!element.piece.region.released) view(element).fill(value);
}
