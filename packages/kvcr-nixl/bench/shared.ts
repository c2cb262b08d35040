/** What both sides of the benchmark agree on. */
import type { RegionDescriptor } from "kvcr-core";

/** The small write. */
export const BLOCK = 64 << 10;

/** The large one: this many blocks of this size. */
export const BULK_BLOCK = 1 << 20;
export const BULK_BLOCKS = 64;

/** What one side tells the other, as JSON. */
export interface Introduction {
	readonly metadata: string;
	readonly regions: readonly (Omit<RegionDescriptor, "addr"> & {
		readonly addr: string;
	})[];
}

/** Percentiles in microseconds. */
export interface Figures {
	readonly p50: number;
	readonly p99: number;
}

/** The percentiles of some durations. */
export function figures(micros: readonly number[]): Figures {
	const sorted = [...micros].sort((a, b) => a - b);
	const at = (share: number) =>
		sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
	return { p50: at(0.5), p99: at(0.99) };
}
