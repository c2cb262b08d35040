/** What a peer's descriptors must look like, and how the addon takes them. */

import {
	InvalidMetadataError,
	type RegionDescriptor,
	showValue,
} from "kvcr-core";

/** Most regions of one peer. */
const MAX_REGIONS = 4096;

/** Most elements of one region; indices are 32-bit on the wire. */
const MAX_ELEMENTS = 2 ** 32;

/** A frozen copy of the peer's descriptors, every field checked: they decide where bytes go. */
export function checkDescriptors(
	operation: string,
	metadata: Uint8Array,
	descriptors: readonly RegionDescriptor[],
): readonly RegionDescriptor[] {
	const refuse = (reason: string): never => {
		throw new InvalidMetadataError(operation, metadata, reason);
	};
	if (!Array.isArray(descriptors) || descriptors.length > MAX_REGIONS)
		return refuse(`regions is not a list of at most ${MAX_REGIONS}`);
	return Array.from(descriptors, (descriptor: RegionDescriptor, i) => {
		if (typeof descriptor !== "object" || descriptor === null)
			return refuse(`regions[${i}] is not a descriptor`);
		const { memType, deviceId, addr, stride, count, size, label } = descriptor;
		if (memType !== "DRAM")
			return refuse(`regions[${i}] is ${showValue(memType)}, not DRAM`);
		if (typeof label !== "string")
			return refuse(`regions[${i}].label is not a string`);
		if (deviceId !== 0) return refuse(`regions[${i}].deviceId is not 0`);
		if (!Number.isSafeInteger(size) || size < 1)
			return refuse(`regions[${i}].size is ${showValue(size)}`);
		if (!Number.isSafeInteger(count) || count < 1 || count > MAX_ELEMENTS)
			return refuse(`regions[${i}].count is ${showValue(count)}`);
		if (!Number.isSafeInteger(stride) || (stride !== 0 && stride < size))
			return refuse(`regions[${i}].stride is ${showValue(stride)}`);
		if (typeof addr !== "bigint" || addr <= 0n)
			return refuse(`regions[${i}].addr is not an address`);
		const step = BigInt(stride === 0 ? size : stride);
		if (addr + step * BigInt(count - 1) + BigInt(size) >= 1n << 64n)
			return refuse(`regions[${i}] reaches past the end of memory`);
		return Object.freeze({
			memType,
			deviceId,
			addr,
			stride,
			count,
			size,
			label,
		});
	});
}

/** Four words per region: address, bytes from one element to the next, bytes of one, number of them. */
export function packDescriptors(
	regions: readonly RegionDescriptor[],
): BigUint64Array {
	const words = new BigUint64Array(regions.length * 4);
	regions.forEach(({ addr, stride, size, count }, i) => {
		words.set(
			[addr, BigInt(stride === 0 ? size : stride), BigInt(size), BigInt(count)],
			i * 4,
		);
	});
	return words;
}
