/** A control channel without a network: a test reads what was sent and says what arrives. */
import type {
	ControlChannel,
	ControlChannelStats,
	ControlReceiver,
} from "../ports/control-channel.js";
import { AlreadyStartedError, ClosedError } from "../ports/errors.js";

/** One message handed to `send` and accepted. */
export interface ScriptedSend {
	/** Whom it was sent to. */
	readonly endpoint: string;
	/** Its bytes. */
	readonly message: Uint8Array;
}

/** Captures sends; `inject` plays the peers. */
export class ScriptedChannel implements ControlChannel {
	readonly endpoint: string | undefined;
	/** Every accepted send, oldest first. */
	readonly sends: ScriptedSend[] = [];
	/** Whether to accept a send; default: all. */
	accept: (endpoint: string, message: Uint8Array) => boolean = () => true;
	#receive: ControlReceiver | undefined;
	#state: "new" | "started" | "closed" = "new";
	#taken = 0;
	#received = 0;
	#refused = 0;

	/** @param endpoint own endpoint, or `undefined` for a channel that nobody can answer */
	constructor(endpoint: string | undefined = "scripted://self") {
		this.endpoint = endpoint;
	}

	/** Where it is in its life. */
	get state(): "new" | "started" | "closed" {
		return this.#state;
	}

	async start(receive: ControlReceiver): Promise<void> {
		if (this.#state === "closed")
			throw new ClosedError("ScriptedChannel.start", "the channel");
		if (this.#state === "started")
			throw new AlreadyStartedError("ScriptedChannel.start", "the channel");
		this.#state = "started";
		this.#receive = receive;
	}

	send(endpoint: string, message: Uint8Array): boolean {
		if (this.#state !== "started" || !this.accept(endpoint, message)) {
			this.#refused += 1;
			return false;
		}
		this.sends.push({ endpoint, message });
		return true;
	}

	/** The sends since the last call. */
	takeSends(): ScriptedSend[] {
		const fresh = this.sends.slice(this.#taken);
		this.#taken = this.sends.length;
		return fresh;
	}

	/** Delivers one message to the receiver, inside this call. False when the channel is not started. */
	inject(message: Uint8Array): boolean {
		if (this.#receive === undefined) return false;
		this.#received += 1;
		this.#receive(message);
		return true;
	}

	stats(): ControlChannelStats {
		return {
			sent: this.sends.length,
			received: this.#received,
			refused: this.#refused > 0 ? { scripted: this.#refused } : {},
			dropped: {},
		};
	}

	async close(): Promise<void> {
		this.#state = "closed";
		this.#receive = undefined;
	}
}
