/** The peers an agent has loaded: handles and generations. */

import { createHash } from "node:crypto";
import {
	InvalidMetadataError,
	type RegionDescriptor,
	type RemoteAgent,
	RemoteBusyError,
} from "kvcr-core";
import { uncoveredRegion } from "./coverage.js";
import { checkDescriptors, packDescriptors } from "./descriptors.js";
import {
	type Metadata,
	ownMetadata,
	readMetadata,
	underName,
	withoutMemory,
} from "./metadata.js";
import type { NativeAgent } from "./native.js";
import { ParkedRemotes } from "./parked-remotes.js";
import type { Transport } from "./ucx-address.js";

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
	readonly name: string;
	readonly remote: NixlRemote;
	readonly metadata: Buffer;
	/** What NIXL calls the peer. */
	readonly alias: string;
}

const NOTHING = new Uint8Array(0);

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
	readonly #parked = new ParkedRemotes<Loaded>(({ remote }) =>
		this.#native.dropRemote(remote.id),
	);
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
		given: Uint8Array,
		descriptors: readonly RegionDescriptor[],
	): NixlRemote {
		const metadata = ownMetadata(operation, given);
		const read = readMetadata(operation, metadata, this.#ownTransports());
		const { name } = read;
		const regions = checkDescriptors(operation, metadata, descriptors);
		const former = this.#byName.get(name);
		if (former !== undefined && former.remote.inFlight > 0)
			throw new RemoteBusyError(operation, name);
		const digest = createHash("sha256").update(metadata).digest("base64");
		const refuse = (reason: string): never => {
			throw new InvalidMetadataError(operation, metadata, reason);
		};
		if (this.#refused.has(digest)) return refuse("it was refused before");
		const uncovered = uncoveredRegion(regions, read.memory);
		if (uncovered !== undefined)
			return refuse(`it does not cover region ${uncovered}`);
		const remote = new NixlRemote(this.#nextId++, name, regions);
		const parked =
			former === undefined ? this.#parked.take(name, metadata) : undefined;
		const alias =
			this.#reuse(remote, former ?? parked, metadata) ??
			this.#load(remote, metadata, read, (former ?? parked)?.remote, digest);
		if (former !== undefined) former.remote.stale = true;
		this.#byName.set(name, {
			name,
			remote,
			metadata,
			alias,
		});
		return remote;
	}

	/** The same blob again needs no new connection. Undefined: it is not the same, or NIXL has dropped the peer meanwhile. */
	#reuse(
		remote: NixlRemote,
		loaded: Loaded | undefined,
		metadata: Uint8Array,
	): string | undefined {
		if (loaded === undefined || Buffer.compare(loaded.metadata, metadata) !== 0)
			return undefined;
		try {
			this.#native.addRemote(
				remote.id,
				loaded.alias,
				NOTHING,
				NOTHING,
				packDescriptors(remote.regions),
				loaded.remote.id,
				false,
			);
			return loaded.alias;
		} catch (error) {
			if ((error as { code?: unknown }).code !== "NATIVE_COVERAGE") throw error;
			return undefined;
		}
	}

	#load(
		remote: NixlRemote,
		metadata: Uint8Array,
		read: Metadata,
		replaces: NixlRemote | undefined,
		digest: string,
	): string {
		const { name } = read;
		const alias = name === this.#ownName ? name : `${name}#${remote.id}`;
		try {
			this.#native.addRemote(
				remote.id,
				alias,
				underName(withoutMemory(metadata, read), name, alias),
				underName(metadata, name, alias),
				packDescriptors(remote.regions),
				replaces?.id ?? 0,
				true,
			);
			return alias;
		} catch (error) {
			if ((error as { code?: unknown }).code === "NATIVE_METADATA")
				this.#remember(digest);
			// One that was parked has no other way to be unloaded any more.
			if (replaces?.stale) this.#native.dropRemote(replaces.id);
			throw error;
		}
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
		const loaded = this.#byName.get(remote.name);
		remote.stale = true;
		this.#byName.delete(remote.name);
		if (loaded !== undefined) this.#parked.park(loaded);
	}

	/** Ends what goes on in here by itself; the addon unloads whoever is left. */
	close(): void {
		this.#parked.close();
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
