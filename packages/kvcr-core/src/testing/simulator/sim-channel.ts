/** The control channel of a simulated instance: its messages are lost, late, doubled, damaged, and answered by strangers. */
import type {
	ControlChannel,
	ControlChannelStats,
	ControlReceiver,
} from "../../ports/index.js";
import {
	type ControlMessage,
	decodeControlMessage,
} from "../../protocol/index.js";
import type { MemoryChannel } from "../memory-channel.js";
import type { MemoryNetwork } from "../memory-network.js";
import type { FaultDice } from "./faults.js";
import type { SimClock } from "./sim-clock.js";

/** What the simulation hears of a channel. */
export interface ChannelWatch {
	/** A message goes out, before anything happens to it. */
	sending(message: ControlMessage, endpoint: string): void;
	log(line: string): void;
}

export class SimChannel implements ControlChannel {
	readonly #inner: MemoryChannel;
	readonly #network: MemoryNetwork;
	readonly #dice: FaultDice;
	readonly #clock: SimClock;
	readonly #watch: ChannelWatch;

	constructor(
		inner: MemoryChannel,
		network: MemoryNetwork,
		dice: FaultDice,
		clock: SimClock,
		watch: ChannelWatch,
	) {
		this.#inner = inner;
		this.#network = network;
		this.#dice = dice;
		this.#clock = clock;
		this.#watch = watch;
	}

	get endpoint(): string | undefined {
		return this.#inner.endpoint;
	}

	get exclusiveEndpoint(): boolean {
		return true;
	}

	start(receive: ControlReceiver): Promise<void> {
		return this.#inner.start((message) =>
			this.#clock.gate(() => receive(message)),
		);
	}

	send(endpoint: string, bytes: Uint8Array): boolean {
		const message = decodeControlMessage(bytes);
		const scope = `${this.#inner.name} ${endpoint}`;
		const type = message?.type ?? "unknown";
		if (this.#dice.roll("refuseSend", scope)) {
			this.#watch.log(`${scope} ${type} refused`);
			return false;
		}
		if (message !== undefined) this.#watch.sending(message, endpoint);
		const random = this.#dice.random(scope);
		if (this.#dice.roll("damage", scope)) {
			const damaged = damage(bytes, random.next(), random.next());
			this.#watch.log(`${scope} ${type} damaged`);
			if (damaged !== undefined) this.#post(endpoint, damaged, 0);
			// The message itself may come too: then this was a damaged copy of it.
			if (random.chance(0.5)) return true;
		}
		if (this.#dice.roll("lose", scope)) {
			this.#watch.log(`${scope} ${type} lost`);
			return true;
		}
		const delay = this.#dice.roll("delay", scope)
			? random.pick([1, 5, 30, 200, 500, 1500])
			: 0;
		this.#watch.log(`${scope} ${type}${delay > 0 ? ` after ${delay}` : ""}`);
		const accepted = this.#post(endpoint, bytes, delay);
		if (this.#dice.roll("duplicate", scope))
			this.#post(endpoint, bytes, random.pick([0, 1, 20, 150, 400, 1500]));
		return accepted;
	}

	/** Sends bytes as they are, without faults. */
	post(endpoint: string, bytes: Uint8Array): boolean {
		return this.#post(endpoint, bytes, 0);
	}

	stats(): ControlChannelStats {
		return this.#inner.stats();
	}

	close(): Promise<void> {
		return this.#inner.close();
	}

	#post(endpoint: string, bytes: Uint8Array, delayMs: number): boolean {
		this.#network.policy = () => ({ delayMs });
		const accepted = this.#inner.send(endpoint, bytes);
		this.#network.policy = undefined;
		return accepted;
	}
}

/** The bytes with a flaw that shows; undefined when it would not: then the message is as good as lost. */
function damage(
	bytes: Uint8Array,
	where: number,
	how: number,
): Uint8Array | undefined {
	const at = Math.floor(where * bytes.byteLength);
	let damaged: Uint8Array;
	if (how < 0.3) damaged = bytes.slice(0, at);
	else {
		damaged = bytes.slice();
		damaged[at] = how < 0.6 ? 0xc1 : Math.floor(how * 255);
	}
	try {
		decodeControlMessage(damaged);
		return undefined;
	} catch {
		return damaged;
	}
}
