/** A transfer agent whose writes complete, fail, hang or break off as a test says. */
import {
	checkCovered,
	checkWrite,
	MAX_NOTIFICATION_BYTES,
} from "../portable/checks.js";
import {
	checkRegionSpec,
	RegionMemory,
	type RegionOwner,
} from "../portable/region-memory.js";
import { checkPayload } from "../ports/agent-checks.js";
import { checkObject } from "../ports/checks.js";
import {
	AlreadyStartedError,
	ClosedError,
	InvalidArgumentError,
	NotQuiescentError,
	RemoteBusyError,
	StaleRemoteError,
} from "../ports/errors.js";
import type {
	AgentNotification,
	ElementPair,
	RegionDescriptor,
	RegionSpec,
	RemoteAgent,
	TrafficExpectation,
	TransferAgent,
	TransferAgentInfo,
	TransferCompletion,
	TransferId,
	WriteRequest,
} from "../ports/transfer-agent.js";
import {
	decodeFabricMetadata,
	encodeFabricMetadata,
} from "./fabric-metadata.js";
import type { MemoryFabric } from "./memory-fabric.js";
import type { Scheduler } from "./scheduler.js";
import { ScriptedWrite, type WriteTarget } from "./scripted-write.js";

/** What auto mode does with a write when its time has come. */
export type ScriptedFate = "complete" | "fail" | "stall";

/** Options of a {@link ScriptedTransferAgent}. */
export interface ScriptedAgentOptions {
	/** `"auto"` (default): writes end by themselves after `latencyMs`. `"manual"`: the test ends each of them. */
	readonly mode?: "auto" | "manual";
	/** Time a write takes in auto mode, in milliseconds; default 0 (still never inside `write`). */
	readonly latencyMs?: number;
	/** Auto mode: the fate of each write; default `"complete"`. */
	readonly fate?: (write: ScriptedWrite) => ScriptedFate;
	/**
	 * `"always"` (default): arriving notifications wake the listener. `"expected"`: only while `expectTraffic` is held, as with
	 * engines that have to be watched; notifications wait until then.
	 */
	readonly incomingWakes?: "always" | "expected";
}

class ScriptedRemote implements RemoteAgent {
	readonly name: string;
	readonly incarnationKey: string;
	readonly regions: readonly RegionDescriptor[];
	inFlight = 0;

	constructor(
		name: string,
		incarnationKey: string,
		regions: readonly RegionDescriptor[],
	) {
		this.name = name;
		this.incarnationKey = incarnationKey;
		this.regions = regions;
	}
}

/** In-process {@link TransferAgent}; made by `MemoryFabric.agent`. */
export class ScriptedTransferAgent
	implements TransferAgent, RegionOwner, WriteTarget
{
	readonly name: string;
	/** Name and incarnation: tells a restarted agent from the one before. */
	readonly incarnationKey: string;
	readonly info: TransferAgentInfo = {
		kind: "scripted",
		transports: ["memory"],
		rdma: false,
		details: {},
	};
	/** Changes how the writes from now on end. */
	mode: "auto" | "manual";
	/** Auto mode: the fate of each write that comes due from now on. */
	fate: (write: ScriptedWrite) => ScriptedFate;
	/** Number of `expectTraffic` handles that are held. */
	expectations = 0;
	/** Names given to `connect`, oldest first. */
	readonly connected: string[] = [];
	readonly #incarnation: number;
	readonly #fabric: MemoryFabric;
	readonly #later: Scheduler;
	readonly #latencyMs: number;
	readonly #incomingWakes: "always" | "expected";
	readonly #regions = new Map<bigint, RegionMemory>();
	readonly #remotes = new Map<string, ScriptedRemote>();
	readonly #writes = new Map<TransferId, ScriptedWrite>();
	#completions: TransferCompletion[] = [];
	#notifications: AgentNotification[] = [];
	#wake: (() => void) | undefined;
	#wakeScheduled = false;
	#nextTransfer = 1;
	#state: "open" | "crashed" | "closed" = "open";

	/** For {@link MemoryFabric.agent}, which is how to get one. */
	constructor(
		name: string,
		incarnation: number,
		fabric: MemoryFabric,
		later: Scheduler,
		options: ScriptedAgentOptions,
	) {
		this.name = name;
		this.incarnationKey = `${name}#${incarnation}`;
		this.mode = options.mode ?? "auto";
		this.fate = options.fate ?? (() => "complete");
		this.#incarnation = incarnation;
		this.#fabric = fabric;
		this.#later = later;
		this.#latencyMs = options.latencyMs ?? 0;
		this.#incomingWakes = options.incomingWakes ?? "always";
	}

	/** The writes in flight, oldest first: what a test completes, fails or stalls. */
	get writes(): readonly ScriptedWrite[] {
		return [...this.#writes.values()];
	}

	/** Number of regions that are not released. */
	get regionCount(): number {
		return this.#regions.size;
	}

	/** Number of loaded remotes. */
	get remoteCount(): number {
		return this.#remotes.size;
	}

	/**
	 * The process of this agent dies: it can no longer be reached, what it was writing stops where it is, without completion,
	 * and it wakes nobody. Every call but `close` and the `take` methods throws from now on.
	 */
	crash(): void {
		if (this.#state !== "open") return;
		this.#state = "crashed";
		this.#fabric.forget(this);
		for (const write of this.#writes.values()) write.vanish();
		this.#writes.clear();
		this.#wake = undefined;
		this.#completions = [];
		this.#notifications = [];
	}

	attach(wake: () => void): void {
		this.#assertOpen("attach");
		if (this.#wake !== undefined)
			throw new AlreadyStartedError(
				"ScriptedTransferAgent.attach",
				"the listener",
			);
		this.#wake = wake;
		if (this.#completions.length > 0 || this.#notifications.length > 0)
			this.#scheduleWake();
	}

	detach(): void {
		this.#wake = undefined;
	}

	async createRegion(given: RegionSpec): Promise<RegionMemory> {
		this.#assertOpen("createRegion");
		const operation = "ScriptedTransferAgent.createRegion";
		const spec = checkRegionSpec(operation, given);
		const addr = this.#fabric.takeAddress(
			spec.elementBytes * spec.elementCount,
		);
		const region = new RegionMemory(operation, spec, addr, this);
		this.#regions.set(addr, region);
		return region;
	}

	localMetadata(): Uint8Array {
		this.#assertOpen("localMetadata");
		return encodeFabricMetadata({
			name: this.name,
			incarnation: this.#incarnation,
			regions: [...this.#regions.values()].map((region) => region.descriptor),
		});
	}

	addRemote(
		metadata: Uint8Array,
		regions: readonly RegionDescriptor[],
	): RemoteAgent {
		this.#assertOpen("addRemote");
		const operation = "ScriptedTransferAgent.addRemote";
		const decoded = decodeFabricMetadata(operation, metadata);
		const checked = checkCovered(operation, metadata, regions, decoded.regions);
		this.#assertOpen("addRemote");
		const former = this.#remotes.get(decoded.name);
		if (former !== undefined && former.inFlight > 0)
			throw new RemoteBusyError(operation, former.name);
		const remote = new ScriptedRemote(
			decoded.name,
			`${decoded.name}#${decoded.incarnation}`,
			checked,
		);
		this.#remotes.set(remote.name, remote);
		return remote;
	}

	removeRemote(remote: RemoteAgent): void {
		const loaded = this.#loaded(remote);
		if (loaded === undefined) return;
		if (loaded.inFlight > 0)
			throw new RemoteBusyError(
				"ScriptedTransferAgent.removeRemote",
				loaded.name,
			);
		this.#remotes.delete(loaded.name);
	}

	connect(remote: RemoteAgent): void {
		this.#current("connect", remote);
		this.connected.push(remote.name);
	}

	write(request: WriteRequest): TransferId {
		this.#assertOpen("write");
		const operation = "ScriptedTransferAgent.write";
		checkObject(operation, "request", request);
		const remote = this.#current("write", request.remote);
		const pairs: ElementPair[] = [];
		const notification = checkWrite(
			operation,
			request,
			remote.regions,
			(region) => this.#regions.get(region.descriptor.addr) === region,
			(_index, region, element, remoteRegion, remoteElement) => {
				pairs.push({ region, element, remoteRegion, remoteElement });
			},
		);
		this.#current("write", remote);
		const transfer = this.#nextTransfer++ as TransferId;
		const write = new ScriptedWrite(
			transfer,
			this.name,
			remote.name,
			{ remote, pairs, notification },
			remote.regions,
			{
				target: () => this.#reach(remote),
				ended: (ended, completion) => this.#ended(ended, completion, remote),
			},
		);
		write.retain();
		remote.inFlight += 1;
		this.#writes.set(transfer, write);
		if (this.mode === "auto")
			this.#later(() => this.#decide(write), this.#latencyMs);
		return transfer;
	}

	cancel(transfer: TransferId): boolean {
		const write = this.#writes.get(transfer);
		if (write === undefined) return false;
		write.cancelRequested = true;
		return true;
	}

	takeCompletions(): readonly TransferCompletion[] {
		const taken = this.#completions;
		this.#completions = [];
		return taken;
	}

	notify(remote: RemoteAgent, payload: Uint8Array): boolean {
		this.#assertOpen("notify");
		const current = this.#current("notify", remote);
		checkPayload(
			"ScriptedTransferAgent.notify",
			"payload",
			payload,
			MAX_NOTIFICATION_BYTES,
		);
		const bytes = payload.slice();
		this.#later(() => {
			const target = this.#reach(current);
			if (target !== "stall" && !("unreachable" in target))
				target.deliver(this.name, bytes);
		}, this.#latencyMs);
		return true;
	}

	takeNotifications(): readonly AgentNotification[] {
		const taken = this.#notifications;
		this.#notifications = [];
		return taken;
	}

	expectTraffic(): TrafficExpectation {
		this.#assertOpen("expectTraffic");
		this.expectations += 1;
		if (this.#notifications.length > 0) this.#scheduleWake();
		let held = true;
		return {
			end: () => {
				if (held) this.expectations -= 1;
				held = false;
			},
		};
	}

	async close(): Promise<void> {
		if (this.#state === "closed") return;
		const stalled = this.writes.filter((write) => write.state === "stalled");
		for (const write of this.writes)
			if (write.state === "in_flight")
				write.confirmCancel("the agent was closed");
		this.#fabric.forget(this);
		if (this.#state === "open") this.#state = "crashed";
		if (stalled.length > 0) {
			throw new NotQuiescentError(
				"ScriptedTransferAgent.close",
				`${stalled.length} writes are still in flight`,
			);
		}
		this.#state = "closed";
		this.#wake = undefined;
		this.#remotes.clear();
		for (const region of [...this.#regions.values()]) region.end();
	}

	/** For regions: one of them ended. */
	regionEnded(region: RegionMemory): void {
		this.#regions.delete(region.descriptor.addr);
	}

	/** For writes of other agents: the live region behind a descriptor. */
	memory(descriptor: RegionDescriptor): RegionMemory | undefined {
		return this.#regions.get(descriptor.addr);
	}

	/** For other agents: a notification arrives. */
	deliver(from: string, payload: Uint8Array): void {
		this.#notifications.push({ from, payload });
		if (this.#incomingWakes === "always" || this.expectations > 0)
			this.#scheduleWake();
	}

	#decide(write: ScriptedWrite): void {
		if (write.state !== "in_flight" || this.#state !== "open") return;
		if (write.cancelRequested) {
			write.confirmCancel();
			return;
		}
		const fate = this.fate(write);
		switch (fate) {
			case "complete":
				write.complete();
				return;
			case "fail":
				write.fail();
				return;
			case "stall":
				write.stall();
		}
	}

	#ended(
		write: ScriptedWrite,
		completion: TransferCompletion,
		remote: ScriptedRemote,
	): void {
		this.#writes.delete(write.transfer);
		remote.inFlight -= 1;
		this.#completions.push(completion);
		this.#scheduleWake();
	}

	#reach(
		remote: ScriptedRemote,
	): WriteTarget | { readonly unreachable: string } | "stall" {
		const cut = this.#fabric.cutBetween(this.name, remote.name);
		if (cut === "stall") return cut;
		if (cut === "fail") return { unreachable: "the link is cut" };
		return (
			this.#fabric.find(remote.incarnationKey) ?? {
				unreachable: "the target is gone",
			}
		);
	}

	#scheduleWake(): void {
		if (this.#wakeScheduled || this.#wake === undefined) return;
		this.#wakeScheduled = true;
		this.#later(() => {
			this.#wakeScheduled = false;
			this.#wake?.();
		}, 0);
	}

	#loaded(remote: RemoteAgent): ScriptedRemote | undefined {
		if (!(remote instanceof ScriptedRemote)) {
			throw new InvalidArgumentError(
				"ScriptedTransferAgent",
				"remote",
				(remote as RemoteAgent | undefined)?.name,
				"a handle that addRemote of this agent returned",
			);
		}
		return this.#remotes.get(remote.name) === remote ? remote : undefined;
	}

	#current(operation: string, remote: RemoteAgent): ScriptedRemote {
		this.#assertOpen(operation);
		const loaded = this.#loaded(remote);
		if (loaded === undefined)
			throw new StaleRemoteError(
				`ScriptedTransferAgent.${operation}`,
				remote.name,
			);
		return loaded;
	}

	#assertOpen(operation: string): void {
		if (this.#state !== "open")
			throw new ClosedError(`ScriptedTransferAgent.${operation}`, "the agent");
	}
}
