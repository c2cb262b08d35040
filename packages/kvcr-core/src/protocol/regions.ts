/** A peer's metadata: how its transfer agent is reached and which memory it registered. */
import { UINT64_MAX } from "../ports/names.js";
import type { RegionDescriptor } from "../ports/transfer-agent.js";
import { isWireMap, shortest, type WireMap, type WireValue } from "./codec.js";
import { FieldViolation } from "./errors.js";
import { readInteger, readName, readText, readUint64 } from "./fields.js";
import {
	MAX_METADATA_BYTES,
	MAX_REGION_ELEMENTS,
	MAX_REGIONS_PER_OWNER,
} from "./limits.js";

/** Registered regions of one peer by label, apart for memory of its framework and memory of its KVCR. */
export interface TargetRegions {
	readonly framework: ReadonlyMap<string, RegionDescriptor>;
	readonly managed: ReadonlyMap<string, RegionDescriptor>;
}

/** What a message tells about its sender's memory. The two fields travel together. */
export interface PeerMetadata {
	/** Opaque bytes of the transfer agent (wire field `target_agent_metadata`). */
	readonly metadata: Uint8Array;
	/** Wire field `target_regions`. */
	readonly regions: TargetRegions;
}

/**
 * The label of the registration that an element label selects, if there is one: for managed memory the pool before the colon;
 * for framework memory the label itself, or else the registration that serves every part of a pool (`pool:*`).
 */
export function matchingLabel(
	regions: ReadonlyMap<string, unknown>,
	label: string,
	framework: boolean,
): string | undefined {
	if (framework && regions.has(label)) return label;
	const colon = label.indexOf(":");
	const pool = colon < 0 ? label : label.slice(0, colon);
	const shared = framework ? (colon < 0 ? undefined : `${pool}:*`) : pool;
	return shared !== undefined && regions.has(shared) ? shared : undefined;
}

/** Reads the metadata fields; `undefined` when the message carries none. The metadata bytes are copied. */
export function readPeer(
	fields: Record<string, unknown>,
): PeerMetadata | undefined {
	const metadata = fields.target_agent_metadata;
	if (metadata === undefined || metadata === null) return undefined;
	if (
		!(metadata instanceof Uint8Array) ||
		metadata.byteLength === 0 ||
		metadata.byteLength > MAX_METADATA_BYTES
	)
		throw new FieldViolation(
			"target_agent_metadata",
			metadata,
			`1 to ${MAX_METADATA_BYTES} bytes of binary`,
		);
	return {
		// It outlives the message, which would be kept alive by a view.
		metadata: metadata.slice(),
		regions: readRegions(fields.target_regions),
	};
}

/** Appends the metadata fields. */
export function writePeer(map: WireMap, peer: PeerMetadata | undefined): void {
	if (peer === undefined) return;
	map.target_agent_metadata = peer.metadata;
	map.target_regions = [
		wireRegions(peer.regions.framework),
		wireRegions(peer.regions.managed),
	];
}

function readRegions(value: unknown): TargetRegions {
	if (value === undefined) return { framework: new Map(), managed: new Map() };
	if (!Array.isArray(value) || value.length !== 2)
		throw new FieldViolation(
			"target_regions",
			value,
			"an array of two maps (framework, managed)",
		);
	const counts = new Map<string, number>();
	return {
		framework: readCatalog(value[0], "target_regions[0]", counts),
		managed: readCatalog(value[1], "target_regions[1]", counts),
	};
}

function readCatalog(
	value: unknown,
	path: string,
	counts: Map<string, number>,
): ReadonlyMap<string, RegionDescriptor> {
	if (!isWireMap(value))
		throw new FieldViolation(path, value, "a map of regions by label");
	const entries = Object.entries(value);
	if (entries.length > MAX_REGIONS_PER_OWNER)
		throw new FieldViolation(
			path,
			entries.length,
			`at most ${MAX_REGIONS_PER_OWNER} regions`,
		);
	const catalog = new Map<string, RegionDescriptor>();
	for (const [label, entry] of entries) {
		const region = readRegion(entry, `${path}[${JSON.stringify(label)}]`);
		if (region.label !== label)
			throw new FieldViolation(
				`${path}[${JSON.stringify(label)}].label`,
				region.label,
				"the label it is listed under",
			);
		const total = (counts.get(region.memType) ?? 0) + region.count;
		if (total > MAX_REGION_ELEMENTS)
			throw new FieldViolation(
				`${path}[${JSON.stringify(label)}].count`,
				region.count,
				`such that all ${region.memType} regions have at most ${MAX_REGION_ELEMENTS} elements`,
			);
		counts.set(region.memType, total);
		catalog.set(label, region);
	}
	return catalog;
}

function readRegion(value: unknown, path: string): RegionDescriptor {
	if (!isWireMap(value)) throw new FieldViolation(path, value, "a map");
	const size = readInteger(value.size, `${path}.size`, 1);
	const stride =
		value.stride === undefined
			? 0
			: readInteger(value.stride, `${path}.stride`, 0);
	if (stride !== 0 && stride < size)
		throw new FieldViolation(
			`${path}.stride`,
			stride,
			"0 or at least the element size",
		);
	const count =
		value.count === undefined
			? 1
			: readInteger(value.count, `${path}.count`, 1, MAX_REGION_ELEMENTS);
	const addr = readUint64(value.addr, `${path}.addr`);
	const extent = BigInt(size) + BigInt(count - 1) * BigInt(stride || size);
	if (addr + extent > UINT64_MAX)
		throw new FieldViolation(
			`${path}.addr`,
			addr,
			"such that the region ends inside the 64-bit address space",
		);
	const label =
		value.label === undefined ? "" : readText(value.label, `${path}.label`);
	const colon = label.indexOf(":");
	if (colon >= 0 && colon === label.length - 1)
		throw new FieldViolation(
			`${path}.label`,
			label,
			"a pool, pool:part or pool:*",
		);
	return {
		memType:
			value.mem_type === undefined
				? "DRAM"
				: readName(value.mem_type, `${path}.mem_type`),
		deviceId:
			value.device_Id === undefined
				? 0
				: readInteger(value.device_Id, `${path}.device_Id`, 0),
		addr,
		stride,
		count,
		size,
		label,
	};
}

function wireRegions(
	regions: ReadonlyMap<string, RegionDescriptor>,
): WireValue {
	const map: WireMap = {};
	for (const [label, region] of regions) {
		map[label] = {
			mem_type: region.memType,
			device_Id: shortest(region.deviceId),
			addr: shortest(region.addr),
			stride: shortest(region.stride),
			count: shortest(region.count),
			size: shortest(region.size),
			label: region.label,
		};
	}
	return map;
}
