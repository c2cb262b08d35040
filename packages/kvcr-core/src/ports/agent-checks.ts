/** What every transfer agent checks before it does anything. For implementers of {@link TransferAgent}: a call that throws has moved no byte. */
import { checkObject } from "./checks.js";
import {
	ElementOutOfRangeError,
	InvalidArgumentError,
	RegionReleasedError,
} from "./errors.js";
import type {
	ElementPair,
	MemoryRegion,
	RegionDescriptor,
} from "./transfer-agent.js";

/** The getters that all typed arrays share; the first answers `undefined` for what is none. */
const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;
const kindOf = getter(typedArray, Symbol.toStringTag);
const byteLengthOf = getter(typedArray, "byteLength");

function getter(object: object, name: string | symbol): () => unknown {
	return Object.getOwnPropertyDescriptor(object, name)?.get as () => unknown;
}

/**
 * Checks the payload of a notification.
 * @param maxBytes Most bytes the agent carries.
 * @throws InvalidArgumentError
 */
export function checkPayload(
	operation: string,
	argument: string,
	payload: unknown,
	maxBytes: number,
): void {
	const length = lengthOfBytes(payload);
	if (length !== undefined && length <= maxBytes) return;
	throw new InvalidArgumentError(
		operation,
		argument,
		payload,
		`a Uint8Array of at most ${maxBytes} bytes`,
	);
}

/** Length of a real Uint8Array; `undefined` for look-alikes, whatever their prototype is. Runs no code of the caller. */
function lengthOfBytes(value: unknown): number | undefined {
	return kindOf.call(value) === "Uint8Array"
		? (byteLengthOf.call(value) as number)
		: undefined;
}

/**
 * Checks the index of an element.
 * @param label Label of its region, for the error.
 * @param count Elements of the region.
 * @throws ElementOutOfRangeError
 */
export function checkElement(
	operation: string,
	label: string,
	element: number,
	count: number,
): void {
	if (!Number.isInteger(element) || element < 0 || element >= count)
		throw new ElementOutOfRangeError(operation, label, element, count);
}

/** What the pairs of a write are checked against. */
export interface PairRules<R extends MemoryRegion> {
	/** Most pairs in one write. */
	readonly maxPairs: number;
	/** Regions of the remote, as they were given to `addRemote`. */
	readonly remoteRegions: readonly RegionDescriptor[];
	/** Whether a value is a region of this kind of agent. */
	readonly isRegion: (value: unknown) => value is R;
	/** Whether this very agent made a region, and it is not released. */
	readonly owns: (region: R) => boolean;
}

/**
 * Told of a pair that is sound. The numbers are those that were checked: a pair is read once, since it may be of any kind.
 */
export type PairVisitor<R extends MemoryRegion> = (
	index: number,
	region: R,
	element: number,
	remoteRegion: number,
	remoteElement: number,
) => void;

/**
 * Checks everything about the pairs of a write. Pairs may have getters, which run the caller's code: whatever else that can
 * change, such as the agent and the remote being in use at all, is to be looked at again afterwards.
 * @param each Told of every pair, in order, up to the first that is not sound.
 * @returns The distinct regions.
 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError
 */
export function checkPairs<R extends MemoryRegion>(
	operation: string,
	pairs: readonly ElementPair[],
	rules: PairRules<R>,
	each?: PairVisitor<R>,
): ReadonlySet<R> {
	const { maxPairs, remoteRegions } = rules;
	const count = Array.isArray(pairs) ? pairs.length : 0;
	if (!(count >= 1 && count <= maxPairs))
		throw new InvalidArgumentError(
			operation,
			"pairs",
			pairs,
			`a list of 1 to ${maxPairs} pairs`,
		);
	const regions = new Set<R>();
	// Neighbors mostly are of one region.
	let last: R | undefined;
	for (let i = 0; i < count; i += 1) {
		const pair: unknown = pairs[i];
		checkObject(operation, `pairs[${i}]`, pair);
		const { region, element, remoteRegion, remoteElement } =
			pair as ElementPair;
		if (last === undefined || region !== last) {
			last = ownRegion(operation, i, region, rules);
			regions.add(last);
		}
		checkElement(operation, last.label, element, last.elementCount);
		const remote = Number.isInteger(remoteRegion)
			? remoteRegions[remoteRegion]
			: undefined;
		if (remote === undefined)
			throw new InvalidArgumentError(
				operation,
				`pairs[${i}].remoteRegion`,
				remoteRegion,
				`an index into the ${remoteRegions.length} regions of the remote`,
			);
		checkElement(operation, remote.label, remoteElement, remote.count);
		if (remote.size !== last.elementBytes)
			throw new InvalidArgumentError(
				operation,
				`pairs[${i}]`,
				last.elementBytes,
				`two elements of one size (the remote's has ${remote.size} bytes)`,
			);
		each?.(i, last, element, remoteRegion, remoteElement);
	}
	// A later pair may have released the region of an earlier one.
	for (const { released, label } of regions)
		if (released) throw new RegionReleasedError(operation, label);
	return regions;
}

function ownRegion<R extends MemoryRegion>(
	operation: string,
	index: number,
	region: unknown,
	{ isRegion, owns }: PairRules<R>,
): R {
	if (isRegion(region)) {
		// Released first: such a region belongs to nobody any more, and that is what the caller should hear.
		if (region.released) throw new RegionReleasedError(operation, region.label);
		if (owns(region)) return region;
	}
	throw new InvalidArgumentError(
		operation,
		`pairs[${index}].region`,
		(region as { label?: unknown } | null | undefined)?.label,
		"a region that this agent made",
	);
}
