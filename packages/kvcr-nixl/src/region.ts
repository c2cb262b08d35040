/** Registered memory as its owner sees it. */
import { markAsUntransferable } from "node:worker_threads";
import {
	checkElement,
	type MemoryRegion,
	type RegionDescriptor,
	RegionReleasedError,
} from "kvcr-core";
import type { NativeRegion } from "./native.js";

/**
 * Whether a buffer that must not be moved to another thread can still be detached, which is how its region ends. Newer
 * releases of Node.js refuse both; but those do not move memory of an addon in the first place.
 */
const MARK_KEEPS_DETACHABLE = (() => {
	const probe: ArrayBuffer & { transfer?: () => ArrayBuffer } = new ArrayBuffer(
		1,
	);
	markAsUntransferable(probe);
	try {
		probe.transfer?.();
		return true;
	} catch {
		return false;
	}
})();

/** What a region needs from the agent that made it. */
export interface RegionOwner {
	/** Deregisters and detaches. @throws RegionBusyError while a transfer may still touch the region. */
	endRegion(region: NixlRegion): void;
}

/** A region of {@link NixlTransferAgent}: one contiguous mapping, shown as one ArrayBuffer per slice. */
export class NixlRegion implements MemoryRegion {
	/** Name inside the addon. */
	readonly id: number;
	readonly label: string;
	readonly elementBytes: number;
	readonly elementCount: number;
	readonly descriptor: RegionDescriptor;
	/**
	 * A path by which another process of the same user can map this memory; `undefined` for anonymous memory. It is good
	 * while the region lives.
	 */
	readonly path: string | undefined;
	/** Writes in flight that read this region; kept by the agent. */
	inFlight = 0;
	readonly #owner: RegionOwner;
	readonly #elementsPerSlice: number;
	#buffers: readonly ArrayBuffer[];
	#released = false;

	/** @internal */
	constructor(
		owner: RegionOwner,
		id: number,
		label: string,
		elementBytes: number,
		elementCount: number,
		sliceBytes: number,
		native: NativeRegion,
	) {
		this.#owner = owner;
		this.id = id;
		this.label = label;
		this.elementBytes = elementBytes;
		this.elementCount = elementCount;
		this.#elementsPerSlice = sliceBytes / elementBytes;
		// Moved to another thread, a buffer would be missing here; the memory itself would stay valid.
		if (MARK_KEEPS_DETACHABLE)
			for (const buffer of native.buffers) markAsUntransferable(buffer);
		this.#buffers = native.buffers;
		this.path = native.path === "" ? undefined : native.path;
		this.descriptor = {
			memType: "DRAM",
			deviceId: 0,
			addr: native.addr,
			stride: 0,
			count: elementCount,
			size: elementBytes,
			label,
		};
	}

	/** True for a region made by this class: a look-alike has no memory behind it. */
	static is(value: unknown): value is NixlRegion {
		return typeof value === "object" && value !== null && #owner in value;
	}

	get released(): boolean {
		return this.#released;
	}

	element(index: number): Uint8Array {
		if (this.#released)
			throw new RegionReleasedError("MemoryRegion.element", this.label);
		checkElement("MemoryRegion.element", this.label, index, this.elementCount);
		const slice = Math.floor(index / this.#elementsPerSlice);
		const inside = index - slice * this.#elementsPerSlice;
		return new Uint8Array(
			this.#buffers[slice] as ArrayBuffer,
			inside * this.elementBytes,
			this.elementBytes,
		);
	}

	release(): void {
		if (!this.#released) this.#owner.endRegion(this);
	}

	/** @internal Marks the end; returns the buffers to detach. */
	end(): readonly ArrayBuffer[] {
		const buffers = this.#buffers;
		this.#released = true;
		this.#buffers = [];
		return buffers;
	}
}
