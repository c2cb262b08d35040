/** Incoming control messages: decoded, checked, counted, handed to whoever answers for their type. Never throws. */
import type { Incarnation } from "../ports/index.js";
import { MalformedMessageError } from "../ports/index.js";
import type {
	HashesResolvedMessage,
	ResolveHashesMessage,
} from "../protocol/index.js";
import {
	type ControlMessage,
	decodeControlMessage,
	MalformedHashesResolvedError,
	MalformedStartWriteError,
} from "../protocol/index.js";
import type { CounterFamily, Telemetry } from "../telemetry/telemetry.js";
import type { PullEngine } from "../transfer/pull-engine.js";
import type { ServeEngine } from "../transfer/serve-engine.js";
import type { SourceDirectory } from "../transfer/sources.js";

/** Who gets what. */
export interface InboxHandlers {
	readonly sources: SourceDirectory;
	readonly pulls: PullEngine;
	readonly serve: ServeEngine;
	/** Answers a resolution request. */
	readonly resolve: (message: ResolveHashesMessage) => void;
	/** Takes the reply to a resolution of ours. */
	readonly resolved: (message: HashesResolvedMessage) => void;
	readonly malformedResolved: (error: MalformedHashesResolvedError) => void;
	readonly telemetry: Telemetry;
	readonly incarnation: Incarnation;
}

export class ControlInbox {
	readonly #h: InboxHandlers;
	readonly #received: CounterFamily;

	constructor(handlers: InboxHandlers) {
		this.#h = handlers;
		this.#received = handlers.telemetry.family(
			"kvcr_control_received_total",
			"type",
		);
	}

	/** Takes one message off the channel. */
	receive(bytes: Uint8Array): void {
		const { telemetry, serve, malformedResolved } = this.#h;
		try {
			const message = decodeControlMessage(bytes);
			if (message === undefined) {
				this.#drop("unknown_type");
				return;
			}
			this.#received.count(message.type);
			this.#dispatch(message);
		} catch (error) {
			if (error instanceof MalformedStartWriteError) serve.malformed(error);
			else if (error instanceof MalformedHashesResolvedError)
				malformedResolved(error);
			if (error instanceof MalformedMessageError) {
				this.#drop("malformed");
				telemetry.logger.debug({ error }, "malformed control message dropped");
			} else {
				// A message must never be able to end progress.
				this.#drop("handler_error");
				telemetry.warnOnce(
					"control-message",
					{ error },
					"a control message could not be handled",
				);
			}
		}
	}

	#dispatch(message: ControlMessage): void {
		const { sources, pulls, serve, resolve, resolved } = this.#h;
		const { header } = message;
		switch (message.type) {
			case "target_metadata": {
				serve.targetMetadata(message);
				return;
			}
			case "target_metadata_ack": {
				if (header.senderControlEndpoint !== undefined)
					sources.acknowledge(header.senderControlEndpoint, header);
				return;
			}
			case "start_write": {
				serve.startWrite(message);
				return;
			}
			case "write_refused": {
				pulls.refused(message);
				return;
			}
			case "write_probe": {
				serve.probe(message);
				return;
			}
			case "write_probe_ack": {
				pulls.probeAnswered(message);
				return;
			}
			case "resolve_hashes": {
				resolve(message);
				return;
			}
			case "hashes_resolved": {
				resolved(message);
				return;
			}
		}
	}

	#drop(reason: string): void {
		this.#h.telemetry.count("kvcr_control_dropped_total", { reason });
	}
}
