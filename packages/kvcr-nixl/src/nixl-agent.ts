/** `NixlTransferAgent`: the port of kvcr-core over NIXL. Policy and bookkeeping are here, bytes and polling in the addon. */
import {
	type AgentNotification,
	AlreadyStartedError,
	ClosedError,
	checkObject,
	checkPayload,
	InvalidArgumentError,
	NotQuiescentError,
	RdmaUnavailableError,
	RegionBusyError,
	type RegionDescriptor,
	type RemoteAgent,
	StaleRemoteError,
	type TrafficExpectation,
	type TransferAgent,
	type TransferAgentInfo,
	type TransferCompletion,
	type TransferId,
	type WriteRequest,
} from "kvcr-core";
import * as atExit from "./at-exit.js";
import { translateNative } from "./errors.js";
import { surveyTransports } from "./info.js";
import { type NativeAgent, nativeBinding } from "./native.js";
import {
	type CheckedRegion,
	checkAgentOptions,
	checkMapSpec,
	checkRegionSpec,
	type NixlAgentOptions,
	type NixlMapSpec,
	type NixlRegionSpec,
} from "./options.js";
import { NixlRegion } from "./region.js";
import { NixlRemote, Remotes } from "./remotes.js";
import { startNative } from "./start.js";
import { MAX_NOTIFICATION_BYTES, PairPacker } from "./writes.js";

interface InFlight {
	readonly remote: NixlRemote;
	readonly regions: ReadonlySet<NixlRegion>;
}

const OUTCOMES = ["done", "failed", "cancelled"] as const;

/**
 * Moves bytes over NIXL and UCX: RDMA where there is an adapter, shared memory and TCP elsewhere.
 *
 * ```ts
 * const agent = await NixlTransferAgent.create({ requireRdma: true });
 * const pool = await agent.createRegion({ label: "kv", elementBytes: 65536, elementCount: 1024 });
 * ```
 *
 * A peer that is written to has to poll for it, unless the transport is RDMA: hold an expectation meanwhile. An agent
 * that is not closed lives until its environment ends, which then waits up to a second for its writes in flight.
 */
export class NixlTransferAgent implements TransferAgent {
	readonly name: string;
	readonly #info: TransferAgentInfo;
	readonly #native: NativeAgent;
	readonly #remotes: Remotes;
	readonly #closeTimeoutMs: number;
	readonly #regions = new Set<NixlRegion>();
	readonly #creations = new Set<Promise<unknown>>();
	readonly #inFlight = new Map<number, InFlight>();
	readonly #packer = new PairPacker();
	#completed: TransferCompletion[] = [];
	#wake: (() => void) | undefined;
	#nextTransfer = 1;
	#nextRegion = 1;
	#closing: Promise<void> | undefined;

	private constructor(
		name: string,
		native: NativeAgent,
		info: TransferAgentInfo,
		closeTimeoutMs: number,
	) {
		this.name = name;
		this.#native = native;
		this.#info = info;
		this.#closeTimeoutMs = closeTimeoutMs;
		this.#remotes = new Remotes(native, name);
	}

	/**
	 * Loads NIXL and starts an agent; takes some tenths of a second, without blocking.
	 * @throws NixlNotFoundError, NixlLibraryError, NativeAddonError, RdmaUnavailableError, InvalidArgumentError,
	 * TransferAgentError when NIXL or its UCX plugin does not start (all as rejection).
	 */
	static async create(
		options: NixlAgentOptions = {},
	): Promise<NixlTransferAgent> {
		const operation = "NixlTransferAgent.create";
		const { name, requireRdma, closeTimeoutMs } = checkAgentOptions(
			operation,
			options,
		);
		const survey = surveyTransports();
		if (requireRdma && !survey.rdma)
			throw new RdmaUnavailableError(operation, survey.transports);
		let self: NixlTransferAgent | undefined;
		const native = await startNative(
			operation,
			options.libraryPath,
			name,
			() => {
				if (self !== undefined) self.#wake?.();
			},
		);
		const info: TransferAgentInfo = {
			kind: "nixl",
			transports: survey.transports,
			rdma: survey.rdma,
			details: {
				library: native.library,
				ucx: native.ucxVersion,
				rdmaDevices: survey.rdmaDevices.join(",") || "none",
			},
		};
		self = new NixlTransferAgent(name, native, info, closeTimeoutMs);
		atExit.add(native);
		return self;
	}

	/** Facts about this agent; `details.notificationsDropped` counts those that came while too many waited to be taken. */
	get info(): TransferAgentInfo {
		const { details } = this.#info;
		const dropped = this.#native.notificationsDropped();
		return {
			...this.#info,
			details: { ...details, notificationsDropped: String(dropped) },
		};
	}

	attach(wake: () => void): void {
		if (typeof wake !== "function")
			throw new InvalidArgumentError(
				"TransferAgent.attach",
				"wake",
				wake,
				"a function",
			);
		if (this.#wake !== undefined)
			throw new AlreadyStartedError("TransferAgent.attach", "the listener");
		this.#wake = wake;
		// What came before there was a listener woke nobody.
		queueMicrotask(() => {
			if (this.#wake === wake && this.#closing === undefined) wake();
		});
	}

	detach(): void {
		this.#wake = undefined;
	}

	/** Like the port's, with a choice of memory. @throws RegionMemoryError when the memory cannot be had. */
	async createRegion(spec: NixlRegionSpec): Promise<NixlRegion> {
		const operation = "TransferAgent.createRegion";
		this.#assertOpen(operation);
		return this.#makeRegion(operation, checkRegionSpec(operation, spec));
	}

	/**
	 * Maps and registers memory that another process owns, such as the host buffers of an inference engine. The owner must
	 * not shrink the file meanwhile: touching what is gone ends the process.
	 * @throws RegionMemoryError when there is no such file or it is too small, InvalidArgumentError, ClosedError,
	 * TransferAgentError (as rejection)
	 */
	async mapRegion(spec: NixlMapSpec): Promise<NixlRegion> {
		const operation = "NixlTransferAgent.mapRegion";
		this.#assertOpen(operation);
		return this.#makeRegion(operation, checkMapSpec(operation, spec));
	}

	localMetadata(): Uint8Array {
		const operation = "TransferAgent.localMetadata";
		this.#assertOpen(operation);
		return this.#call(operation, () => this.#native.localMetadata());
	}

	addRemote(
		metadata: Uint8Array,
		regions: readonly RegionDescriptor[],
	): RemoteAgent {
		const operation = "TransferAgent.addRemote";
		this.#assertOpen(operation);
		this.#drain();
		try {
			return this.#remotes.add(operation, metadata, regions);
		} catch (error) {
			throw translateNative(operation, error, { metadata });
		}
	}

	removeRemote(remote: RemoteAgent): void {
		const operation = "TransferAgent.removeRemote";
		this.#assertOpen(operation);
		if (!(remote instanceof NixlRemote))
			throw new InvalidArgumentError(
				operation,
				"remote",
				remote,
				"a handle of addRemote",
			);
		this.#drain();
		this.#call(operation, () => this.#remotes.remove(operation, remote));
	}

	connect(remote: RemoteAgent): void {
		const operation = "TransferAgent.connect";
		this.#assertOpen(operation);
		const { id } = this.#current(operation, remote);
		this.#call(operation, () => this.#native.connect(id));
	}

	write(request: WriteRequest): TransferId {
		const operation = "TransferAgent.write";
		this.#assertOpen(operation);
		checkObject(operation, "request", request);
		// Each is read once: getters may have another answer the next time.
		const { remote: handle, pairs, notification } = request;
		const remote = this.#current(operation, handle);
		const { numbers, count, regions } = this.#packer.pack(
			operation,
			pairs,
			remote,
			this.#owns,
		);
		// Getters of pairs run the caller's code, which may have ended either.
		this.#assertOpen(operation);
		this.#current(operation, remote);
		checkPayload(
			operation,
			"notification",
			notification,
			MAX_NOTIFICATION_BYTES,
		);
		const id = this.#nextTransfer++;
		try {
			this.#native.write(id, remote.id, numbers, count, notification);
		} catch (error) {
			const translated = translateNative(operation, error, {
				remote: remote.name,
			});
			// NIXL forgets a peer whose connection broke; its handle is of no more use.
			if (translated instanceof StaleRemoteError) {
				remote.broken = true;
				this.#remotes.settle(remote);
			}
			throw translated;
		}
		remote.inFlight += 1;
		for (const region of regions) region.inFlight += 1;
		this.#inFlight.set(id, { remote, regions });
		return id as TransferId;
	}

	cancel(transfer: TransferId): boolean {
		if (this.#closing !== undefined || !this.#inFlight.has(transfer))
			return false;
		return this.#call("TransferAgent.cancel", () =>
			this.#native.cancel(transfer),
		);
	}

	takeCompletions(): readonly TransferCompletion[] {
		this.#drain();
		const completed = this.#completed;
		this.#completed = [];
		return completed;
	}

	notify(remote: RemoteAgent, payload: Uint8Array): boolean {
		const operation = "TransferAgent.notify";
		this.#assertOpen(operation);
		checkPayload(operation, "payload", payload, MAX_NOTIFICATION_BYTES);
		const { id } = this.#current(operation, remote);
		return this.#call(operation, () => this.#native.notify(id, payload));
	}

	takeNotifications(): readonly AgentNotification[] {
		const flat = this.#native.takeNotifications();
		const taken: AgentNotification[] = [];
		for (let i = 0; i < flat.length; i += 2)
			taken.push({
				from: flat[i] as string,
				payload: flat[i + 1] as Uint8Array,
			});
		return taken;
	}

	expectTraffic(): TrafficExpectation {
		this.#assertOpen("TransferAgent.expectTraffic");
		this.#native.expect(1);
		let ended = false;
		return {
			end: () => {
				if (ended) return;
				ended = true;
				if (this.#closing === undefined) this.#native.expect(-1);
			},
		};
	}

	close(): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	/** @internal Called by a region that is released. */
	endRegion(region: NixlRegion): void {
		this.#drain();
		if (region.inFlight > 0)
			throw new RegionBusyError("MemoryRegion.release", region.label);
		if (this.#closing === undefined)
			this.#call("MemoryRegion.release", () =>
				this.#native.dropRegion(region.id),
			);
		this.#regions.delete(region);
		nativeBinding().detach(region.end());
	}

	async #makeRegion(
		operation: string,
		spec: CheckedRegion,
	): Promise<NixlRegion> {
		// Getters of the specification run the caller's code, which may have closed the agent.
		this.#assertOpen(operation);
		const id = this.#nextRegion++;
		const creation = this.#native.createRegion(id, spec);
		this.#creations.add(creation);
		try {
			const native = await creation;
			const region = new NixlRegion(
				this,
				id,
				spec.label,
				spec.elementBytes,
				spec.elementCount,
				spec.sliceBytes,
				native,
			);
			this.#regions.add(region);
			return region;
		} catch (error) {
			throw translateNative(operation, error);
		} finally {
			this.#creations.delete(creation);
		}
	}

	async #close(): Promise<void> {
		const operation = "TransferAgent.close";
		this.#remotes.close();
		// Registrations under way cannot be stopped, only awaited.
		while (this.#creations.size > 0)
			await Promise.allSettled([...this.#creations]);
		const quiescent = await this.#native.close(this.#closeTimeoutMs);
		atExit.remove(this.#native);
		this.#drain();
		// The last wake: whatever ended is taken now or never missed.
		if (this.#completed.length > 0) this.#wake?.();
		if (!quiescent) {
			throw new NotQuiescentError(
				operation,
				`${this.#inFlight.size} writes of agent ${this.name} did not end within ${this.#closeTimeoutMs} ms`,
			);
		}
		for (const region of this.#regions) nativeBinding().detach(region.end());
		this.#regions.clear();
	}

	/** Takes the addon's completions, so that what they held is free. */
	#drain(): void {
		const flat = this.#native.takeCompletions();
		for (let i = 0; i < flat.length; i += 3) {
			const id = flat[i] as number;
			const inFlight = this.#inFlight.get(id);
			if (inFlight === undefined) continue;
			this.#inFlight.delete(id);
			const { remote, regions } = inFlight;
			remote.inFlight -= 1;
			for (const region of regions) region.inFlight -= 1;
			const outcome = OUTCOMES[flat[i + 1] as number] ?? "failed";
			// What else can make a write fail was refused before it was posted.
			if (outcome === "failed") remote.broken = true;
			if (remote.broken && this.#closing === undefined)
				this.#remotes.settle(remote);
			const transfer = id as TransferId;
			if (outcome === "done") this.#completed.push({ transfer, outcome });
			else {
				const reason =
					outcome === "failed"
						? `NIXL answered status ${flat[i + 2]}`
						: "the write was cancelled";
				this.#completed.push({ transfer, outcome, reason });
			}
		}
	}

	readonly #owns = (region: NixlRegion): boolean => this.#regions.has(region);

	#current(operation: string, remote: RemoteAgent): NixlRemote {
		if (!(remote instanceof NixlRemote))
			throw new InvalidArgumentError(
				operation,
				"remote",
				remote,
				"a handle of addRemote",
			);
		if (remote.broken || !this.#remotes.has(remote))
			throw new StaleRemoteError(operation, remote.name);
		return remote;
	}

	#assertOpen(operation: string): void {
		if (this.#closing !== undefined)
			throw new ClosedError(operation, "the agent");
	}

	#call<T>(operation: string, body: () => T): T {
		try {
			return body();
		} catch (error) {
			throw translateNative(operation, error);
		}
	}
}
