/** An in-process network of control channels with faults on demand. Endpoints look like `memory://name`. */
import type { Clock } from "../ports/clock.js";
import { MAX_CONTROL_MESSAGE_BYTES } from "../ports/control-channel.js";
import { MemoryChannel } from "./memory-channel.js";
import { type Scheduler, schedulerFor } from "./scheduler.js";

/** One message between two channels. */
export interface NetworkMessage {
	/** Name of the sending channel. */
	readonly from: string;
	/** Name of the channel the endpoint stands for. */
	readonly to: string;
	/** The message. */
	readonly bytes: Uint8Array;
	/** Position in the order of all sends of this network, from 0. */
	readonly sequence: number;
}

/** What happens to one message. An empty object delivers it as it is. */
export interface MessageFate {
	/** How many copies arrive; default 1, 0 loses the message. */
	readonly copies?: number;
	/** Extra time before it arrives, in milliseconds. Later messages overtake it: this is how to reorder. */
	readonly delayMs?: number;
	/** Other bytes arrive in place of the message's own. */
	readonly bytes?: Uint8Array;
}

/** Options of a {@link MemoryNetwork}. */
export interface MemoryNetworkOptions {
	/** Delivery runs on this clock; default: on the event loop. */
	readonly clock?: Clock;
	/** `"auto"` (default) delivers by itself; `"manual"` waits for `deliver` or `deliverAt`. */
	readonly mode?: "auto" | "manual";
	/** Time every message takes in auto mode, in milliseconds; default 0 (still never inside `send`). */
	readonly latencyMs?: number;
	/** Decides the fate of each message; default: all arrive. */
	readonly policy?: (message: NetworkMessage) => MessageFate;
	/** Messages in flight per sending channel before `send` refuses; default 100,000. */
	readonly maxQueued?: number;
	/** Largest message, in bytes; default 1 MiB. */
	readonly maxMessageBytes?: number;
}

/** Joins {@link MemoryChannel}s of one process. */
export class MemoryNetwork {
	/** Decides the fate of each message from now on. */
	policy: ((message: NetworkMessage) => MessageFate) | undefined;
	/** Messages that may wait before sends are refused. */
	readonly maxQueued: number;
	/** Longest message accepted, in bytes. */
	readonly maxMessageBytes: number;
	/** Messages that reached nobody: lost by policy, cut off, or nobody listened. */
	lost = 0;
	readonly #manual: boolean;
	readonly #latencyMs: number;
	readonly #later: Scheduler;
	readonly #listening = new Map<string, MemoryChannel>();
	readonly #queuedBy = new Map<string, number>();
	readonly #waiting: NetworkMessage[] = [];
	readonly #cuts = new Set<string>();
	#sequence = 0;

	/** Without options: every message arrives, in order, in a later turn. */
	constructor(options: MemoryNetworkOptions = {}) {
		this.policy = options.policy;
		this.maxQueued = options.maxQueued ?? 100_000;
		this.maxMessageBytes = options.maxMessageBytes ?? MAX_CONTROL_MESSAGE_BYTES;
		this.#manual = options.mode === "manual";
		this.#latencyMs = options.latencyMs ?? 0;
		this.#later = schedulerFor(options.clock);
	}

	/**
	 * A new channel. After a channel closed, its name may be used again.
	 */
	channel(
		name: string,
		options: {
			/** Further names it answers to. Default: none. */
			readonly aliases?: readonly string[];
			/** Whether it has no endpoint, so that it can only send. Default false. */
			readonly addressless?: boolean;
		} = {},
	): MemoryChannel {
		const names = options.addressless ? [] : [name, ...(options.aliases ?? [])];
		return new MemoryChannel(name, names, this);
	}

	/** The endpoint of the channel called `name`. */
	endpoint(name: string): string {
		return `memory://${name}`;
	}

	/** Manual mode: the messages that wait for delivery, oldest first. */
	get waiting(): readonly NetworkMessage[] {
		return this.#waiting;
	}

	/** Manual mode: delivers up to `count` waiting messages, oldest first; default all that wait now. Returns how many. */
	deliver(count = this.#waiting.length): number {
		let done = 0;
		while (done < count && this.deliverAt(0)) done += 1;
		return done;
	}

	/** Manual mode: delivers until nothing waits, answers included. Returns how many. */
	deliverAll(limit = 1_000_000): number {
		const done = this.deliver(limit);
		if (this.#waiting.length > 0)
			throw new Error(
				`MemoryNetwork.deliverAll: still busy after ${limit} messages`,
			);
		return done;
	}

	/** Manual mode: delivers the waiting message at `index`. False when there is none. */
	deliverAt(index: number): boolean {
		const [message] = this.#waiting.splice(index, 1);
		if (message === undefined) return false;
		this.#arrive(message);
		return true;
	}

	/** Manual mode: loses the waiting message at `index`. False when there is none. */
	loseAt(index: number): boolean {
		const [message] = this.#waiting.splice(index, 1);
		if (message === undefined) return false;
		this.#left(message);
		this.lost += 1;
		return true;
	}

	/** Cuts two channels off from each other, both ways, until `heal`. Messages in flight between them are lost. */
	partition(a: string, b: string): void {
		this.#cuts.add(link(a, b));
	}

	/** Ends one partition, or all of them. */
	heal(a?: string, b?: string): void {
		if (a === undefined || b === undefined) this.#cuts.clear();
		else this.#cuts.delete(link(a, b));
	}

	/** For {@link MemoryChannel}: takes the names of a channel that starts. False when one is taken. */
	listen(names: readonly string[], channel: MemoryChannel): boolean {
		if (names.some((name) => this.#listening.has(name))) return false;
		for (const name of names) this.#listening.set(name, channel);
		return true;
	}

	/** For {@link MemoryChannel}: frees the names of a channel that ended. */
	unlisten(names: readonly string[], channel: MemoryChannel): void {
		for (const name of names)
			if (this.#listening.get(name) === channel) this.#listening.delete(name);
	}

	/** For {@link MemoryChannel}: puts one message in flight. False when the sender has too many in flight. */
	post(from: string, to: string, bytes: Uint8Array): boolean {
		const queued = this.#queuedBy.get(from) ?? 0;
		if (queued >= this.maxQueued) return false;
		const message = { from, to, bytes, sequence: this.#sequence++ };
		const fate = this.policy?.(message) ?? {};
		const copies = fate.copies ?? 1;
		if (copies === 0) this.lost += 1;
		this.#queuedBy.set(from, queued + copies);
		const sent =
			fate.bytes === undefined ? message : { ...message, bytes: fate.bytes };
		const delayMs = fate.delayMs ?? 0;
		for (let i = 0; i < copies; i += 1) {
			if (!this.#manual)
				this.#later(() => this.#arrive(sent), this.#latencyMs + delayMs);
			else if (delayMs > 0)
				this.#later(() => void this.#waiting.push(sent), delayMs);
			else this.#waiting.push(sent);
		}
		return true;
	}

	#arrive(message: NetworkMessage): void {
		this.#left(message);
		const target = this.#listening.get(message.to);
		if (
			target === undefined ||
			this.#cuts.has(link(message.from, target.name))
		) {
			this.lost += 1;
			return;
		}
		target.arrive(message.bytes.slice());
	}

	#left(message: NetworkMessage): void {
		this.#queuedBy.set(
			message.from,
			(this.#queuedBy.get(message.from) ?? 1) - 1,
		);
	}
}

function link(a: string, b: string): string {
	return a < b ? `${a}\n${b}` : `${b}\n${a}`;
}
