/** The peers an agent has loaded: handles, generations, and what a peer's descriptors must look like. */

import { createHash } from "node:crypto";
import {
	InvalidMetadataError,
	type RegionDescriptor,
	type RemoteAgent,
	RemoteBusyError,
} from "kvcr-core";
import { readMetadata, underName, withoutMemory } from "./metadata.js";
import type { NativeAgent } from "./native.js";
import type { Transport } from "./ucx-address.js";

/** Most regions of one peer. */
const MAX_REGIONS = 4096;

/** Most elements of one region; indices are 32-bit on the wire. */
const MAX_ELEMENTS = 2 ** 32;

/** A loaded peer, in one generation. */
export class NixlRemote implements RemoteAgent {
	/** Name inside the addon, never reused. */
	readonly id: number;
	readonly name: string;
	readonly regions: readonly RegionDescriptor[];
	/** Writes in flight to this peer; kept by the agent. */
	inFlight = 0;
	/** True once replaced or removed. */
	stale = false;
	/** True once its connection failed. It does not recover: the peer has to be loaded afresh. */
	broken = false;

	/** @internal */
	constructor(id: number, name: string, regions: readonly RegionDescriptor[]) {
		this.id = id;
		this.name = name;
		this.regions = regions;
	}
}

interface Loaded {
	readonly remote: NixlRemote;
	readonly metadata: Buffer;
	/** What NIXL calls the peer. */
	readonly alias: string;
}

/** Most refused blobs remembered. */
const MAX_REFUSED = 1024;

/**
 * All loaded peers of one agent. Each load goes to NIXL under a name of its own: NIXL keeps a part of what it refuses, and
 * would refuse everything under that name from then on. For the same reason a blob that was refused once is not shown
 * to NIXL again; one whose agent could not be reached may be another time.
 */
export class Remotes {
	readonly #native: NativeAgent;
	readonly #ownName: string;
	readonly #refused = new Set<string>();
	readonly #byName = new Map<string, Loaded>();
	#nextId = 1;
	#own: readonly Transport[] | undefined;

	constructor(native: NativeAgent, ownName: string) {
		this.#native = native;
		this.#ownName = ownName;
	}

	/**
	 * Loads a peer, replacing what is loaded under its name.
	 * @throws InvalidMetadataError, RemoteBusyError, and what the addon throws: then nothing has changed.
	 */
	add(
		operation: string,
		metadata: Uint8Array,
		descriptors: readonly RegionDescriptor[],
	): NixlRemote {
		const read = readMetadata(operation, metadata, this.#ownTransports());
		const { name } = read;
		const regions = checkDescriptors(operation, metadata, descriptors);
		const former = this.#byName.get(name);
		if (former !== undefined && former.remote.inFlight > 0)
			throw new RemoteBusyError(operation, name);
		const digest = createHash("sha256").update(metadata).digest("base64");
		if (this.#refused.has(digest))
			throw new InvalidMetadataError(
				operation,
				metadata,
				"it was refused before",
			);
		const remote = new NixlRemote(this.#nextId++, name, regions);
		// The same blob again needs no new connection.
		const reload =
			former === undefined || Buffer.compare(former.metadata, metadata) !== 0;
		const alias = reload
			? name === this.#ownName
				? name
				: `${name}#${remote.id}`
			: former.alias;
		try {
			this.#native.addRemote(
				remote.id,
				alias,
				underName(withoutMemory(metadata, read), name, alias),
				underName(metadata, name, alias),
				packDescriptors(regions),
				former?.remote.id ?? 0,
				reload,
			);
		} catch (error) {
			if ((error as { code?: unknown }).code === "NATIVE_METADATA")
				this.#remember(digest);
			throw error;
		}
		if (former !== undefined) former.remote.stale = true;
		this.#byName.set(name, { remote, metadata: Buffer.from(metadata), alias });
		return remote;
	}

	#ownTransports(): readonly Transport[] {
		this.#own ??= readMetadata(
			"TransferAgent.localMetadata",
			this.#native.localMetadata(),
		).transports;
		return this.#own;
	}

	#remember(digest: string): void {
		if (this.#refused.size >= MAX_REFUSED) this.#refused.clear();
		this.#refused.add(digest);
	}

	/** Forgets a peer; a stale handle is left alone. @throws RemoteBusyError */
	remove(operation: string, remote: NixlRemote): void {
		if (!this.has(remote)) return;
		if (remote.inFlight > 0) throw new RemoteBusyError(operation, remote.name);
		this.#drop(remote);
	}

	/** Forgets a peer whose connection failed, once no write can still end under its name. */
	settle(remote: NixlRemote): void {
		if (remote.broken && remote.inFlight === 0) this.#drop(remote);
	}

	/** True for a current handle of this agent. */
	has(remote: NixlRemote): boolean {
		return !remote.stale && this.#byName.get(remote.name)?.remote === remote;
	}

	#drop(remote: NixlRemote): void {
		remote.stale = true;
		if (this.#byName.get(remote.name)?.remote !== remote) return;
		this.#byName.delete(remote.name);
		this.#native.dropRemote(remote.id);
	}
}

/** A frozen copy of the peer's descriptors, every field checked: they decide where bytes go. */
function checkDescriptors(
	operation: string,
	metadata: Uint8Array,
	descriptors: readonly RegionDescriptor[],
): readonly RegionDescriptor[] {
	const refuse = (reason: string): never => {
		throw new InvalidMetadataError(operation, metadata, reason);
	};
	if (!Array.isArray(descriptors) || descriptors.length > MAX_REGIONS)
		return refuse(`regions is not a list of at most ${MAX_REGIONS}`);
	return descriptors.map((descriptor: RegionDescriptor, i) => {
		if (typeof descriptor !== "object" || descriptor === null)
			return refuse(`regions[${i}] is not a descriptor`);
		const { memType, deviceId, addr, stride, count, size, label } = descriptor;
		if (memType !== "DRAM")
			return refuse(`regions[${i}] is ${String(memType)}, not DRAM`);
		if (typeof label !== "string")
			return refuse(`regions[${i}].label is not a string`);
		if (deviceId !== 0) return refuse(`regions[${i}].deviceId is not 0`);
		if (!Number.isSafeInteger(size) || size < 1)
			return refuse(`regions[${i}].size is ${size}`);
		if (!Number.isSafeInteger(count) || count < 1 || count > MAX_ELEMENTS)
			return refuse(`regions[${i}].count is ${count}`);
		if (!Number.isSafeInteger(stride) || (stride !== 0 && stride < size))
			return refuse(`regions[${i}].stride is ${stride}`);
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

function packDescriptors(regions: readonly RegionDescriptor[]): BigUint64Array {
	const words = new BigUint64Array(regions.length * 4);
	regions.forEach(({ addr, stride, size, count }, i) => {
		words.set(
			[addr, BigInt(stride === 0 ? size : stride), BigInt(size), BigInt(count)],
			i * 4,
		);
	});
	return words;
}
