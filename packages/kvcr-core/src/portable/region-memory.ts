/**
 * Registered memory of agents that live in ordinary process memory: elements in chunks of `ArrayBuffer`s, with an explicit
 * end after which every view handed out has length 0.
 */
import { checkElement } from "../ports/agent-checks.js";
import { checkObject } from "../ports/checks.js";
import {
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
	/**
	 * Called once when a region has ended. `moved` holds its bytes under other buffers: whoever gave their address to the
	 * system keeps them until it has let go.
	 */
	regionEnded(region: RegionMemory, moved: readonly ArrayBuffer[]): void;
}

/**
 * Checks a region spec, reading each field once: they may be getters, with another answer the next time.
 * @returns a copy
 * @throws InvalidArgumentError
 */
export function checkRegionSpec(
	operation: string,
	spec: RegionSpec,
): RegionSpec {
	checkObject(operation, "spec", spec);
	const { label, elementBytes, elementCount } = spec;
	if (typeof label !== "string" || label.length > MAX_REGION_LABEL) {
		throw new InvalidArgumentError(
			operation,
			"spec.label",
			label,
			`a string of at most ${MAX_REGION_LABEL} characters`,
		);
	}
	for (const [field, value] of Object.entries({ elementBytes, elementCount })) {
		if (!Number.isSafeInteger(value) || value < 1) {
			throw new InvalidArgumentError(
				operation,
				`spec.${field}`,
				value,
				"a positive integer",
			);
		}
	}
	if (!Number.isSafeInteger(elementBytes * elementCount)) {
		throw new InvalidArgumentError(
			operation,
			"spec.elementCount",
			elementCount,
			"a count whose total size in bytes is a safe integer",
		);
	}
	return { label, elementBytes, elementCount };
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
		given: RegionSpec,
		addr: bigint,
		owner: RegionOwner,
	) {
		const spec = checkRegionSpec(operation, given);
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
		checkElement("MemoryRegion.element", this.label, index, this.elementCount);
		const chunk = this.#chunks[
			Math.floor(index / this.#elementsPerChunk)
		] as ArrayBuffer;
		return new Uint8Array(
			chunk,
			(index % this.#elementsPerChunk) * this.elementBytes,
			this.elementBytes,
		);
	}

	/** A view of at most `maxBytes` contiguous bytes from a byte offset of the region on; empty once the region ended. */
	span(offset: number, maxBytes: number): Uint8Array {
		const chunkBytes = this.#elementsPerChunk * this.elementBytes;
		const chunk = this.#chunks[Math.floor(offset / chunkBytes)];
		if (chunk === undefined) return new Uint8Array(0);
		const at = offset % chunkBytes;
		return new Uint8Array(chunk, at, Math.min(maxBytes, chunk.byteLength - at));
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
		this.#released = true;
		const moved = this.#chunks.map(detach);
		this.#chunks = [];
		this.#owner.regionEnded(this, moved);
	}
}

/** Moves the bytes elsewhere; every view of the buffer has length 0 afterwards. */
function detach(buffer: ArrayBuffer): ArrayBuffer {
	// Node 20 has no ArrayBuffer.prototype.transfer; a clone that takes the bytes over does the same.
	return structuredClone(buffer, { transfer: [buffer] });
}
