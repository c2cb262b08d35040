/** A hand on the wire: holds, drops, repeats and forges control messages of a cluster. */
import {
	type ControlMessage,
	type ControlMessageType,
	decodeControlMessage,
	encodeControlMessage,
} from "../../src/protocol/index.js";
import type {
	MemoryChannel,
	MessageFate,
	NetworkMessage,
} from "../../src/testing/index.js";
import type { Cluster, Peer } from "./cluster.js";

/** A message seen on the wire. */
export interface Seen {
	readonly from: string;
	readonly to: string;
	readonly message: ControlMessage;
	readonly bytes: Uint8Array;
}

export class Wire {
	/** Every message sent so far, held and lost ones included. */
	readonly log: Seen[] = [];
	readonly held: Seen[] = [];
	readonly #rules = new Map<ControlMessageType, "hold" | "lose" | "repeat">();
	readonly #cluster: Cluster;
	#forger: MemoryChannel | undefined;

	constructor(cluster: Cluster) {
		this.#cluster = cluster;
		cluster.network.policy = (message) => this.#fate(message);
	}

	/** Keeps messages of these types until `release`. */
	hold(...types: readonly ControlMessageType[]): void {
		for (const type of types) this.#rules.set(type, "hold");
	}

	lose(...types: readonly ControlMessageType[]): void {
		for (const type of types) this.#rules.set(type, "lose");
	}

	/** Delivers messages of these types twice. */
	repeat(...types: readonly ControlMessageType[]): void {
		for (const type of types) this.#rules.set(type, "repeat");
	}

	/** Lets messages of these types pass again; held ones stay held. */
	pass(...types: readonly ControlMessageType[]): void {
		for (const type of types) this.#rules.delete(type);
	}

	/** Delivers what was held, oldest first, and lets its type pass. */
	release(...types: readonly ControlMessageType[]): void {
		this.pass(...types);
		for (const seen of this.held.splice(0)) {
			if (types.includes(seen.message.type)) this.replay(seen);
			else this.held.push(seen);
		}
	}

	/** Messages of one type so far. */
	of<T extends ControlMessageType>(
		type: T,
	): Extract<ControlMessage, { type: T }>[] {
		return this.log
			.filter((seen) => seen.message.type === type)
			.map((seen) => seen.message as Extract<ControlMessage, { type: T }>);
	}

	/** Delivers a message (again). */
	replay(seen: Seen): void {
		this.send(seen.to, seen.bytes);
	}

	/** Puts bytes in front of a peer, as if somebody had sent them. */
	send(to: string, bytes: Uint8Array): void {
		if (this.#forger === undefined) {
			this.#forger = this.#cluster.network.channel("forger");
			void this.#forger.start(() => {});
		}
		this.#forger.send(this.#cluster.network.endpoint(to), bytes);
	}

	/** Puts a message in front of a peer. */
	forge(to: Peer, message: ControlMessage): void {
		this.send(to.name, encodeControlMessage(message));
	}

	#fate({ from, to, bytes }: NetworkMessage): MessageFate {
		if (from === "forger") return {};
		const message = decodeControlMessage(bytes);
		if (message === undefined) return {};
		const seen = { from, to, message, bytes };
		this.log.push(seen);
		switch (this.#rules.get(message.type)) {
			case "hold":
				this.held.push(seen);
				return { copies: 0 };
			case "lose":
				return { copies: 0 };
			case "repeat":
				return { copies: 2 };
			case undefined:
				return {};
		}
	}
}
