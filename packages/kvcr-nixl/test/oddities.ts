/** Things that look like regions and are not. */
import type { MemoryRegion } from "kvcr-core";

/** Stand-ins for a region of the agent under test, each wrong in another way. */
export function oddities(real: MemoryRegion): MemoryRegion[] {
	return [
		undefined,
		null,
		7,
		"region",
		new Uint8Array(64),
		{ ...real },
		Object.create(real),
		{
			label: real.label,
			elementBytes: real.elementBytes,
			elementCount: real.elementCount,
			descriptor: real.descriptor,
			released: false,
			element: () => new Uint8Array(64),
			release: () => {},
		},
	] as MemoryRegion[];
}
