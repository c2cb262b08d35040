/**
 * Whether a peer's metadata covers the regions it speaks of. NIXL would say so as well, but only once the peer is loaded,
 * and each load costs both sides file descriptors that NIXL gives back no earlier than at the end.
 */
import type { RegionDescriptor } from "kvcr-core";

/** Registered memory: from its first byte to the one after its last. */
export interface MemoryRange {
	readonly start: bigint;
	readonly end: bigint;
}

/** Most looks at ranges; regions that do not overlap take one for each range and region at most. */
const MAX_LOOKS = 1 << 18;

/**
 * The first region of which some element does not lie within one range, as its index; undefined when there is none. NIXL
 * does not join adjacent ranges either.
 */
export function uncoveredRegion(
	regions: readonly RegionDescriptor[],
	ranges: readonly MemoryRange[],
): number | undefined {
	const sorted = [...ranges].sort((a, b) =>
		a.start < b.start ? -1 : a.start > b.start ? 1 : 0,
	);
	// How far the ranges up to each one reach.
	const reach: bigint[] = [];
	for (const { end } of sorted) {
		const before = reach.at(-1) ?? 0n;
		reach.push(end > before ? end : before);
	}
	let looks = 0;
	for (const [i, { addr, stride, size, count }] of regions.entries()) {
		const bytes = BigInt(size);
		const step = stride === 0 ? bytes : BigInt(stride);
		const end = addr + step * BigInt(count);
		let element = addr;
		while (element < end) {
			const furthest = reach[startingBy(sorted, element)] ?? 0n;
			looks += 1;
			if (element + bytes > furthest || looks > MAX_LOOKS) return i;
			// On to the first element that does not fit in there.
			element += ((furthest - bytes - element) / step + 1n) * step;
		}
	}
	return undefined;
}

/** Index of the last range that starts at the address or before; -1 for none. */
function startingBy(sorted: readonly MemoryRange[], address: bigint): number {
	let low = 0;
	let high = sorted.length;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if ((sorted[middle] as MemoryRange).start <= address) low = middle + 1;
		else high = middle;
	}
	return low - 1;
}
