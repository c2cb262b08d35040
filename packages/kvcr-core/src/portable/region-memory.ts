/**
 * Registered memory of agents that live in ordinary process memory: elements in chunks of `ArrayBuffer`s, with an explicit
 * end after which every view handed out has length 0.
 */
import {
	ElementOutOfRangeError,
	InvalidArgumentError,
	RegionBusyError,
	RegionReleasedError,
	TransferAgentError,
} from "../ports/errors.js";
import type {
	MemoryRegion,
	RegionDescriptor,
	RegionSpec,
} from "../ports/transfer-agent.js";

/** A chunk holds as many whole elements as fit into this many bytes, and at least one. */
const CHUNK_BYTES = 256 * 1024 * 1024;

/** Longest accepted label, in characters. */
export const MAX_REGION_LABEL = 1024;

/** What the owning agent wants to know about its regions. */
export interface RegionOwner {
	/** Called once, before the memory goes away; the buffers are detached right after it returns. */
	regionEnding(region: RegionMemory): void;
}

/**
 * Checks a region spec.
 * @throws InvalidArgumentError
 */
export function checkRegionSpec(operation: string, spec: RegionSpec): void {
	if (typeof spec.label !== "string" || spec.label.length > MAX_REGION_LABEL) {
		throw new InvalidArgumentError(
			operation,
			"spec.label",
			spec.label,
			`a string of at most ${MAX_REGION_LABEL} characters`,
		);
	}
	for (const field of ["elementBytes", "elementCount"] as const) {
		if (!Number.isSafeInteger(spec[field]) || spec[field] < 1) {
			throw new InvalidArgumentError(
				operation,
				`spec.${field}`,
				spec[field],
				"a positive integer",
			);
		}
	}
	if (!Number.isSafeInteger(spec.elementBytes * spec.elementCount)) {
		throw new InvalidArgumentError(
			operation,
			"spec.elementCount",
			spec.elementCount,
			"a count whose total size in bytes is a safe integer",
		);
	}
}

/** One region of plain process memory. */
export class RegionMemory implements MemoryRegion {
	readonly label: string;
	readonly elementBytes: number;
	readonly elementCount: number;
	readonly descriptor: RegionDescriptor;
	readonly #owner: RegionOwner;
	readonly #elementsPerChunk: number;
	#chunks: ArrayBuffer[] = [];
	#released = false;
	#users = 0;

	/**
	 * Allocates zero-filled memory; the system commits pages as they are touched.
	 * @throws InvalidArgumentError, TransferAgentError when there is not enough memory.
	 */
	constructor(
		operation: string,
		spec: RegionSpec,
		addr: bigint,
		owner: RegionOwner,
	) {
		checkRegionSpec(operation, spec);
		this.label = spec.label;
		this.elementBytes = spec.elementBytes;
		this.elementCount = spec.elementCount;
		this.#owner = owner;
		this.#elementsPerChunk = Math.max(
			1,
			Math.floor(CHUNK_BYTES / spec.elementBytes),
		);
		try {
			for (
				let left = spec.elementCount;
				left > 0;
				left -= this.#elementsPerChunk
			) {
				this.#chunks.push(
					new ArrayBuffer(
						Math.min(left, this.#elementsPerChunk) * spec.elementBytes,
					),
				);
			}
		} catch (cause) {
			this.#chunks = [];
			throw new TransferAgentError(
				operation,
				`cannot allocate ${spec.elementCount} elements of ${spec.elementBytes} bytes`,
				{ cause },
			);
		}
		this.descriptor = Object.freeze({
			memType: "DRAM",
			deviceId: 0,
			addr,
			stride: 0,
			count: spec.elementCount,
			size: spec.elementBytes,
			label: spec.label,
		});
	}

	get released(): boolean {
		return this.#released;
	}

	/** True while a transfer reads from this region. */
	get busy(): boolean {
		return this.#users > 0;
	}

	element(index: number): Uint8Array {
		if (this.#released)
			throw new RegionReleasedError("MemoryRegion.element", this.label);
		if (!Number.isInteger(index) || index < 0 || index >= this.elementCount) {
			throw new ElementOutOfRangeError(
				"MemoryRegion.element",
				this.label,
				index,
				this.elementCount,
			);
		}
		const chunk = this.#chunks[
			Math.floor(index / this.#elementsPerChunk)
		] as ArrayBuffer;
		return new Uint8Array(
			chunk,
			(index % this.#elementsPerChunk) * this.elementBytes,
			this.elementBytes,
		);
	}

	/** Marks one more transfer as reading from this region. */
	retain(): void {
		this.#users += 1;
	}

	/** The inverse of {@link retain}. */
	unretain(): void {
		this.#users -= 1;
	}

	release(): void {
		if (this.#released) return;
		if (this.busy)
			throw new RegionBusyError("MemoryRegion.release", this.label);
		this.end();
	}

	/** Ends the region whoever uses it; for an owner that knows that nothing can touch it any more. */
	end(): void {
		if (this.#released) return;
		this.#owner.regionEnding(this);
		this.#released = true;
		for (const chunk of this.#chunks) detach(chunk);
		this.#chunks = [];
	}
}

/** Leaves every view of the buffer with length 0 and gives its memory back. */
function detach(buffer: ArrayBuffer): void {
	const transferable = buffer as ArrayBuffer & {
		transfer?: (newLength?: number) => ArrayBuffer;
	};
	// `transfer(0)` frees at once, but Node 20 lacks it; a transferred clone frees with the next collection.
	if (transferable.transfer) transferable.transfer(0);
	else structuredClone(buffer, { transfer: [buffer] });
}
