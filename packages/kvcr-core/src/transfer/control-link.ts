/** Outgoing control messages: adds the header every message carries, encodes, sends, counts. */
import type { ControlChannel, Incarnation } from "../ports/index.js";
import type { ControlMessage } from "../protocol/index.js";
import { encodeControlMessage } from "../protocol/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";

type WithoutHeader<M> = M extends unknown ? Omit<M, "header"> : never;

/** A control message without its header. */
export type MessageBody = WithoutHeader<ControlMessage>;

/** Sends messages in the name of one instance. */
export class ControlLink {
	readonly #channel: ControlChannel;
	readonly #agentName: string;
	readonly #incarnation: Incarnation;
	readonly #telemetry: Telemetry;

	constructor(
		channel: ControlChannel,
		agentName: string,
		incarnation: Incarnation,
		telemetry: Telemetry,
	) {
		this.#channel = channel;
		this.#agentName = agentName;
		this.#incarnation = incarnation;
		this.#telemetry = telemetry;
	}

	/** Sends a request; replies come to the channel's own endpoint. False: not accepted. */
	request(endpoint: string, body: MessageBody): boolean {
		return this.#send(endpoint, body, this.#channel.endpoint, endpoint);
	}

	/**
	 * Sends a reply. `askedEndpoint` is the endpoint the asker used for this instance: it comes back as
	 * `sender_control_endpoint`, which is how a reply matches although an instance may be known under several names.
	 */
	reply(
		endpoint: string,
		body: MessageBody,
		askedEndpoint: string | undefined,
	): boolean {
		const own = askedEndpoint ?? this.#channel.endpoint;
		return this.#send(
			endpoint,
			body,
			own,
			body.type === "target_metadata_ack" ? undefined : endpoint,
		);
	}

	#send(
		endpoint: string,
		body: MessageBody,
		own: string | undefined,
		asked: string | undefined,
	): boolean {
		const header = {
			targetAgent: this.#agentName,
			senderIncarnation: this.#incarnation,
			...(own !== undefined && { senderControlEndpoint: own }),
			...(asked !== undefined && { sourceControlEndpoint: asked }),
		};
		let accepted: boolean;
		try {
			accepted = this.#channel.send(
				endpoint,
				encodeControlMessage({ ...body, header } as ControlMessage),
			);
		} catch (error) {
			// A channel that throws breaks its contract; the message counts as not accepted.
			this.#telemetry.warnOnce(
				"control-send",
				{ error, endpoint, type: body.type },
				"control channel failed to send",
			);
			accepted = false;
		}
		this.#telemetry.count(
			accepted ? "kvcr_control_sent_total" : "kvcr_control_refused_total",
			{ type: body.type },
		);
		return accepted;
	}
}
