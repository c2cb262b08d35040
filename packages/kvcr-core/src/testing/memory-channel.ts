/** A control channel of a {@link MemoryNetwork}. */
import type {
	ControlChannel,
	ControlChannelStats,
	ControlReceiver,
} from "../ports/control-channel.js";
import {
	AlreadyStartedError,
	ClosedError,
	InvalidEndpointError,
} from "../ports/errors.js";
import type { MemoryNetwork } from "./memory-network.js";

const PREFIX = "memory://";

/** In-process {@link ControlChannel}; made by `MemoryNetwork.channel`. */
export class MemoryChannel implements ControlChannel {
	/** Name inside the network. */
	readonly name: string;
	readonly #names: readonly string[];
	readonly #network: MemoryNetwork;
	#receive: ControlReceiver | undefined;
	#state: "new" | "started" | "closed" = "new";
	#sent = 0;
	#received = 0;
	readonly #refused: Record<string, number> = {};
	readonly #dropped: Record<string, number> = {};

	/** For {@link MemoryNetwork.channel}, which is how to get one. */
	constructor(name: string, names: readonly string[], network: MemoryNetwork) {
		this.name = name;
		this.#names = names;
		this.#network = network;
	}

	get endpoint(): string | undefined {
		return this.#names.length > 0 ? PREFIX + this.name : undefined;
	}

	async start(receive: ControlReceiver): Promise<void> {
		if (this.#state === "closed")
			throw new ClosedError("MemoryChannel.start", "the channel");
		if (this.#state === "started")
			throw new AlreadyStartedError("MemoryChannel.start", "the channel");
		if (!this.#network.listen(this.#names, this)) {
			throw new InvalidEndpointError(
				"MemoryChannel.start",
				this.endpoint,
				"a name that no open channel has",
			);
		}
		this.#state = "started";
		this.#receive = receive;
	}

	send(endpoint: string, message: Uint8Array): boolean {
		if (this.#state !== "started") return this.#refuse("closed");
		if (typeof endpoint !== "string" || !endpoint.startsWith(PREFIX))
			return this.#refuse("bad_endpoint");
		if (!(message instanceof Uint8Array)) return this.#refuse("not_bytes");
		if (message.byteLength > this.#network.maxMessageBytes)
			return this.#refuse("too_large");
		if (!this.#network.post(this.name, endpoint.slice(PREFIX.length), message))
			return this.#refuse("queue_full");
		this.#sent += 1;
		return true;
	}

	stats(): ControlChannelStats {
		return {
			sent: this.#sent,
			received: this.#received,
			refused: { ...this.#refused },
			dropped: { ...this.#dropped },
		};
	}

	async close(): Promise<void> {
		this.#state = "closed";
		this.#receive = undefined;
		this.#network.unlisten(this.#names, this);
	}

	/** For the network: one message arrived. */
	arrive(bytes: Uint8Array): void {
		if (this.#receive === undefined) return;
		this.#received += 1;
		try {
			this.#receive(bytes);
		} catch {
			this.#dropped.receiver_threw = (this.#dropped.receiver_threw ?? 0) + 1;
		}
	}

	#refuse(reason: string): false {
		this.#refused[reason] = (this.#refused[reason] ?? 0) + 1;
		return false;
	}
}
