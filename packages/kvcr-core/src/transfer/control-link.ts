/** Outgoing control messages: adds the header every message carries, encodes, sends, counts. */
import type { ControlChannel, Incarnation } from "../ports/index.js";
import type { HotWait } from "../progress/hot-wait.js";
import type { ControlMessageBody, MessageHeader } from "../protocol/index.js";
import { encodeControlBody } from "../protocol/index.js";
import type { CounterFamily, Telemetry } from "../telemetry/telemetry.js";

/** Sends messages in the name of one instance. */
export class ControlLink {
	readonly #channel: ControlChannel;
	readonly #agentName: string;
	readonly #incarnation: Incarnation;
	readonly #telemetry: Telemetry;
	readonly #sent: CounterFamily;
	readonly #refused: CounterFamily;
	readonly #hotWait: HotWait;

	constructor(
		channel: ControlChannel,
		agentName: string,
		incarnation: Incarnation,
		telemetry: Telemetry,
		hotWait: HotWait,
	) {
		this.#hotWait = hotWait;
		this.#channel = channel;
		this.#agentName = agentName;
		this.#incarnation = incarnation;
		this.#telemetry = telemetry;
		this.#sent = telemetry.family("kvcr_control_sent_total", "type");
		this.#refused = telemetry.family("kvcr_control_refused_total", "type");
	}

	/** Sends a request; replies come to the channel's own endpoint. False: not accepted. */
	request(endpoint: string, body: ControlMessageBody): boolean {
		const own = this.#channel.endpoint;
		const accepted = this.#send(endpoint, body, own, endpoint);
		if (accepted) this.#hotWait.expect();
		return accepted;
	}

	/**
	 * Sends a reply. `askedEndpoint` is the endpoint the asker used for this instance: it comes back as
	 * `sender_control_endpoint`, which is how a reply matches although an instance may be known under several names.
	 */
	reply(
		endpoint: string,
		body: ControlMessageBody,
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
		body: ControlMessageBody,
		own: string | undefined,
		asked: string | undefined,
	): boolean {
		const header: MessageHeader = {
			targetAgent: this.#agentName,
			senderIncarnation: this.#incarnation,
			senderControlEndpoint: own,
			sourceControlEndpoint: asked,
		};
		let accepted: boolean;
		try {
			accepted = this.#channel.send(endpoint, encodeControlBody(body, header));
		} catch (error) {
			// A channel that throws breaks its contract; the message counts as not accepted.
			this.#telemetry.warnOnce(
				"control-send",
				{ error, endpoint, type: body.type },
				"control channel failed to send",
			);
			accepted = false;
		}
		(accepted ? this.#sent : this.#refused).count(body.type);
		return accepted;
	}
}
