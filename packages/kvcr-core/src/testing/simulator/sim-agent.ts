/** The transfer agent of a simulated instance: a scripted agent whose writes and notifications meet faults. */
import {
	type AgentNotification,
	InvalidMetadataError,
	type MemoryRegion,
	type RegionDescriptor,
	type RegionSpec,
	type RemoteAgent,
	type TrafficExpectation,
	type TransferAgent,
	TransferAgentError,
	type TransferAgentInfo,
	type TransferCompletion,
	type TransferId,
	type WriteRequest,
} from "../../ports/index.js";
import type { ManualClock } from "../manual-clock.js";
import type { ScriptedTransferAgent } from "../scripted-agent.js";
import type { ScriptedWrite } from "../scripted-write.js";
import type { FaultDice } from "./faults.js";
import type { LiveWrite } from "./memory-book.js";
import type { SimClock } from "./sim-clock.js";

/** What the simulation hears of an agent. */
export interface AgentWatch {
	/** A write was posted. */
	posted(
		write: ScriptedWrite,
		request: WriteRequest,
		/** Name and incarnation of the agent written to. */
		incarnationKey: string,
		addresses: readonly bigint[],
	): LiveWrite | undefined;
	/** The bytes of a write landed. */
	landed(live: LiveWrite): void;
	log(line: string): void;
}

/** What the fabric knows of a loaded remote, beyond the port. */
interface LoadedRemote extends RemoteAgent {
	readonly incarnationKey: string;
	readonly regions: readonly RegionDescriptor[];
}

/** Between two looks at a write whose link hangs, in milliseconds. */
const RETRY_MS = 40;

export class SimAgent implements TransferAgent {
	readonly inner: ScriptedTransferAgent;
	readonly #dice: FaultDice;
	readonly #world: ManualClock;
	readonly #clock: SimClock;
	readonly #watch: AgentWatch;
	readonly #scope: string;
	readonly #inFlight = new Map<TransferId, LiveWrite>();
	/** The write whose bytes land at this moment, so that its notification is told from others. */
	static #landing: LiveWrite | undefined;

	/** @param scope Name of the instance, for the dice. */
	constructor(
		inner: ScriptedTransferAgent,
		scope: string,
		dice: FaultDice,
		world: ManualClock,
		clock: SimClock,
		watch: AgentWatch,
	) {
		this.inner = inner;
		this.#scope = scope;
		this.#dice = dice;
		this.#world = world;
		this.#clock = clock;
		this.#watch = watch;
		const { deliver } = inner;
		inner.deliver = (from, payload) =>
			this.#arrive(
				SimAgent.#landing,
				(copy) => {
					deliver.call(inner, from, copy);
				},
				payload,
			);
	}

	get name(): string {
		return this.inner.name;
	}

	get info(): TransferAgentInfo {
		return this.inner.info;
	}

	/** Expectations of traffic that were not ended. */
	get expectations(): number {
		return this.inner.expectations;
	}

	attach(wake: () => void): void {
		this.inner.attach(() => this.#clock.gate(wake));
	}

	detach(): void {
		this.inner.detach();
	}

	createRegion(spec: RegionSpec): Promise<MemoryRegion> {
		return this.inner.createRegion(spec);
	}

	localMetadata(): Uint8Array {
		return this.inner.localMetadata();
	}

	addRemote(
		metadata: Uint8Array,
		regions: readonly RegionDescriptor[],
	): RemoteAgent {
		if (this.#dice.roll("peerMetadataRefused", this.#scope))
			throw new InvalidMetadataError(
				"SimAgent.addRemote",
				metadata,
				"simulated",
			);
		return this.inner.addRemote(metadata, regions);
	}

	removeRemote(remote: RemoteAgent): void {
		this.inner.removeRemote(remote);
	}

	connect(remote: RemoteAgent): void {
		this.inner.connect(remote);
	}

	write(request: WriteRequest): TransferId {
		if (this.#dice.roll("writeRefused", this.#scope))
			throw new TransferAgentError("SimAgent.write", "simulated");
		const { incarnationKey, regions } = request.remote as LoadedRemote;
		const transfer = this.inner.write(request);
		const write = this.inner.writes.at(-1) as ScriptedWrite;
		const live = this.#watch.posted(
			write,
			request,
			incarnationKey,
			regions.map((region) => region.addr),
		);
		if (live !== undefined) {
			this.#inFlight.set(transfer, live);
			this.#plan(live);
		}
		return transfer;
	}

	cancel(transfer: TransferId): boolean {
		const known = this.inner.cancel(transfer);
		const live = this.#inFlight.get(transfer);
		if (live === undefined) return known;
		live.cancelled = true;
		if (this.#dice.roll("ignoreCancel", this.#scope)) return known;
		const random = this.#dice.random(this.#scope);
		const partly = random.below(3);
		this.#world.schedule(random.pick([0, 1, 30]), () => {
			if (live.write.state === "ended") return;
			live.write.copy(partly);
			live.write.confirmCancel();
			this.#ended(live, "cancelled");
		});
		return known;
	}

	takeCompletions(): readonly TransferCompletion[] {
		return this.inner.takeCompletions();
	}

	notify(remote: RemoteAgent, payload: Uint8Array): boolean {
		return this.inner.notify(remote, payload);
	}

	takeNotifications(): readonly AgentNotification[] {
		return this.inner.takeNotifications();
	}

	expectTraffic(): TrafficExpectation {
		return this.inner.expectTraffic();
	}

	close(): Promise<void> {
		return this.inner.close();
	}

	/** Ends every write in flight, one way or another: nothing hangs for ever. */
	endAll(): void {
		for (const live of [...this.#inFlight.values()]) this.#end(live);
	}

	/** The process is gone: what it was writing stops where it is. */
	crash(): void {
		this.inner.crash();
		// A failed close has taken the agent off the fabric already, and left its writes.
		for (const live of this.#inFlight.values()) live.write.vanish();
		this.#inFlight.clear();
	}

	/** Decides when and how a write ends. What moves the bytes is no part of the process: it goes on while that is stopped. */
	#plan(live: LiveWrite): void {
		const random = this.#dice.random(this.#scope);
		const { write } = live;
		let ms = random.pick([0, 0, 1, 2, 8]);
		if (this.#dice.roll("writeSlow", this.#scope)) ms = random.between(50, 700);
		const stalls = this.#dice.roll("writeStall", this.#scope);
		if (stalls) ms = random.between(350, 4000);
		const partly = random.below(write.request.pairs.length + 1);
		if (partly > 0 && partly < write.request.pairs.length)
			this.#world.schedule(ms * random.next(), () => void write.copy(partly));
		if (stalls && random.chance(0.6)) write.stall();
		this.#world.schedule(ms, () => this.#end(live));
	}

	#end(live: LiveWrite): void {
		const { write } = live;
		if (write.state === "ended") return;
		if (this.#dice.roll("writeFail", this.#scope)) {
			write.fail();
			this.#ended(live, "failed");
			return;
		}
		SimAgent.#landing = live;
		const ended = write.complete();
		SimAgent.#landing = undefined;
		if (ended) this.#ended(live, live.done ? "done" : "failed");
		else this.#world.schedule(RETRY_MS, () => this.#end(live));
	}

	#ended(live: LiveWrite, outcome: string): void {
		this.#inFlight.delete(live.write.transfer);
		this.#watch.log(
			`write of ${live.write.request.pairs.length} pieces to ${live.write.to} ${outcome}`,
		);
	}

	/** A notification reaches this agent: with the bytes of `live`, or by itself. */
	#arrive(
		live: LiveWrite | undefined,
		deliver: (payload: Uint8Array) => void,
		payload: Uint8Array,
	): void {
		if (live !== undefined) {
			this.#watch.landed(live);
			live.done = true;
		}
		const scope = `notes ${this.#scope}`;
		if (this.#dice.roll("noteLose", scope)) return;
		const late = this.#dice.roll("noteLate", scope);
		const twice = this.#dice.roll("noteDuplicate", scope);
		if (live !== undefined && !late) live.plainlyNotified = true;
		const random = this.#dice.random(scope);
		const arrive = (ms: number) =>
			ms === 0
				? deliver(payload)
				: this.#world.schedule(ms, () => deliver(payload));
		arrive(late ? random.pick([5, 320, 1500]) : 0);
		if (twice) arrive(random.pick([1, 40, 400]));
	}
}
