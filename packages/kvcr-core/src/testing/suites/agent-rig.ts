/** Agents under test, driven by wakes alone: a suite that polled would not notice a wake that never comes. */
import assert from "node:assert/strict";
import type {
	AgentNotification,
	ElementPair,
	MemoryRegion,
	RegionDescriptor,
	RemoteAgent,
	TransferAgent,
	TransferCompletion,
	TransferId,
} from "../../ports/transfer-agent.js";
import {
	DEFAULT_PATIENCE_MS,
	DEFAULT_QUIET_MS,
	pause,
	within,
} from "./runner.js";

/** What an implementer gives to `transferAgentSuite`. */
export interface TransferAgentFactory {
	/** Shown in test names. */
	readonly name: string;
	/**
	 * A new agent in this process. Several live side by side and must be able to reach each other. With `agentName`, the agent
	 * carries exactly that name, which an earlier agent of this factory had before it was closed: a restart.
	 */
	create(agentName?: string): TransferAgent | Promise<TransferAgent>;
	/**
	 * True when a write to memory that its owner released, or whose agent closed, reliably fails. Engines on which such a
	 * write may land in unmapped memory leave it out; the tests concerned are then not declared.
	 */
	readonly refusesReleasedTargets?: boolean;
	/** Time allowed for something to happen, in milliseconds; default 4000. */
	readonly patienceMs?: number;
	/** Time to watch for something that must not happen, in milliseconds; default 60. */
	readonly quietMs?: number;
}

/** One agent and everything it reported. */
export class RigAgent {
	readonly agent: TransferAgent;
	readonly completions: TransferCompletion[] = [];
	readonly notifications: AgentNotification[] = [];
	wakes = 0;
	/** Set when a wake came inside another method of the agent. */
	wokeInside: string | undefined;
	/** When false, wakes are counted but nothing is taken. */
	taking = true;
	readonly #patience: number;
	#inside: string | undefined;
	#watchers: (() => void)[] = [];

	constructor(agent: TransferAgent, patience: number) {
		this.#patience = patience;
		this.agent = this.#guarded(agent);
		this.agent.attach(() => this.#woken());
	}

	get name(): string {
		return this.agent.name;
	}

	/** Takes what waits, as an owner does after a wake. */
	take(): void {
		this.completions.push(...this.agent.takeCompletions());
		this.notifications.push(...this.agent.takeNotifications());
		const watchers = this.#watchers;
		this.#watchers = [];
		for (const watcher of watchers) watcher();
	}

	/** Waits until `check` holds, looking again after every wake. */
	async until(what: string, check: () => boolean): Promise<void> {
		const look = async () => {
			while (!check())
				await new Promise<void>((resolve) => this.#watchers.push(resolve));
		};
		await within(what, this.#patience, look());
	}

	/** Waits for the one completion of a write. */
	async completion(transfer: TransferId): Promise<TransferCompletion> {
		const of = () => this.completions.find((c) => c.transfer === transfer);
		await this.until(
			`the completion of transfer ${transfer}`,
			() => of() !== undefined,
		);
		return of() as TransferCompletion;
	}

	/** Waits for the completion and asserts that it is success. */
	async done(transfer: TransferId): Promise<void> {
		const completion = await this.completion(transfer);
		assert.equal(completion.outcome, "done", completion.reason);
	}

	region(
		elementCount: number,
		elementBytes: number,
		label = "r",
	): Promise<MemoryRegion> {
		return this.agent.createRegion({ label, elementBytes, elementCount });
	}

	/** Loads another agent with these of its regions. */
	load(other: RigAgent, regions: readonly MemoryRegion[]): RemoteAgent {
		return this.agent.addRemote(
			other.agent.localMetadata(),
			regions.map((region) => region.descriptor),
		);
	}

	#woken(): void {
		this.wakes += 1;
		this.wokeInside ??= this.#inside;
		if (this.taking) this.take();
	}

	/** Notes which method runs, so that a wake inside one shows. */
	#guarded(agent: TransferAgent): TransferAgent {
		const enter = <T>(name: string, body: () => T): T => {
			const outer = this.#inside;
			this.#inside = name;
			try {
				return body();
			} finally {
				this.#inside = outer;
			}
		};
		return new Proxy(agent, {
			get(target, property) {
				const value: unknown = Reflect.get(target, property, target);
				if (typeof value !== "function") return value;
				return (...args: unknown[]) =>
					enter(String(property), () => Reflect.apply(value, target, args));
			},
		});
	}
}

/** Makes agents for one test and closes them at its end. */
export class AgentRig {
	readonly #factory: TransferAgentFactory;
	readonly #patience: number;
	readonly #made: RigAgent[] = [];

	constructor(factory: TransferAgentFactory) {
		this.#factory = factory;
		this.#patience = factory.patienceMs ?? DEFAULT_PATIENCE_MS;
	}

	/** A new agent that expects traffic until the end of the test. */
	async agent(agentName?: string): Promise<RigAgent> {
		const made = await this.silentAgent(agentName);
		made.agent.expectTraffic();
		return made;
	}

	/** A new agent that does not say that it expects traffic. */
	async silentAgent(agentName?: string): Promise<RigAgent> {
		const made = new RigAgent(
			await this.#factory.create(agentName),
			this.#patience,
		);
		this.#made.push(made);
		return made;
	}

	/** A writer and a reader with one region each, the reader loaded at the writer. */
	async pair(elementCount = 4, elementBytes = 4_096): Promise<Pair> {
		const [writer, reader] = [await this.agent(), await this.agent()];
		const from = await writer.region(elementCount, elementBytes, "from");
		const to = await reader.region(elementCount, elementBytes, "to");
		const remote = writer.load(reader, [to]);
		return { writer, reader, from, to, remote };
	}

	/** Time enough to notice what must not happen. */
	quiet(): Promise<void> {
		return pause(this.#factory.quietMs ?? DEFAULT_QUIET_MS);
	}

	get patience(): number {
		return this.#patience;
	}

	/** Closes every agent; then nothing may have been completed twice, or have woken its owner inside a call. */
	async end(): Promise<void> {
		await within(
			"closing all agents",
			2 * this.#patience,
			Promise.all(this.#made.map(({ agent }) => agent.close())),
		);
		for (const made of this.#made) {
			const ids = made.completions.map(({ transfer }) => transfer);
			assert.equal(
				new Set(ids).size,
				ids.length,
				"a write was completed more than once",
			);
			assert.equal(
				made.wokeInside,
				undefined,
				"the listener was called inside another method of the agent",
			);
		}
	}
}

/** See {@link AgentRig.pair}. */
export interface Pair {
	readonly writer: RigAgent;
	readonly reader: RigAgent;
	readonly from: MemoryRegion;
	readonly to: MemoryRegion;
	readonly remote: RemoteAgent;
}

/** Pairs that copy elements of one region to the same places of the remote's first region. */
export function samePlaces(
	region: MemoryRegion,
	elements: readonly number[],
	remoteRegion = 0,
): ElementPair[] {
	return elements.map((element) => ({
		region,
		element,
		remoteRegion,
		remoteElement: element,
	}));
}

/** Fills an element with a pattern that `seed` determines. */
export function paint(
	region: MemoryRegion,
	element: number,
	seed: number,
): void {
	const bytes = region.element(element);
	for (let i = 0; i < bytes.length; i += 1) bytes[i] = tint(seed, i);
}

/** Asserts that an element holds the pattern of `seed`. */
export function assertPainted(
	region: MemoryRegion,
	element: number,
	seed: number,
): void {
	const bytes = region.element(element);
	for (let i = 0; i < bytes.length; i += 1) {
		if (bytes[i] !== tint(seed, i))
			assert.fail(
				`byte ${i} of element ${element} is ${bytes[i]}, not ${tint(seed, i)}`,
			);
	}
}

/** Asserts that an element was never written. */
export function assertBlank(region: MemoryRegion, element: number): void {
	assert.ok(
		region.element(element).every((byte) => byte === 0),
		`element ${element} was written`,
	);
}

/** A notification payload that names a number. */
export function payload(value: number): Uint8Array {
	return Uint8Array.of(0x4b, value & 0xff, (value >> 8) & 0xff, 0x56);
}

/** A descriptor like another one, at an address nobody registered. */
export function elsewhere(descriptor: RegionDescriptor): RegionDescriptor {
	return { ...descriptor, addr: descriptor.addr + (1n << 44n) };
}

function tint(seed: number, i: number): number {
	return (seed * 97 + i * 7 + (i >> 8) * 13 + 1) & 0xff;
}
