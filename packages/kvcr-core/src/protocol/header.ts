/** What every message carries about its sender. */
import type { Incarnation } from "../ports/names.js";
import type { WireMap } from "./codec.js";
import { FieldViolation } from "./errors.js";
import { readIncarnation, readName, readOptionalName } from "./fields.js";

/** The sender's side of a message. */
export interface MessageHeader {
	/** Transfer agent name of the sender (wire field `target_agent`, whichever role the sender has). */
	readonly targetAgent: string;
	/** Wire field `sender_incarnation`. */
	readonly senderIncarnation: Incarnation;
	/**
	 * Where replies go (wire field `sender_control_endpoint`). A reply echoes the endpoint that the asker used here instead:
	 * that is how an asker recognizes an alias.
	 */
	readonly senderControlEndpoint?: string | undefined;
	/** The endpoint this message was sent to, as its sender knows it (wire field `source_control_endpoint`). */
	readonly sourceControlEndpoint?: string | undefined;
}

/** A message without its header, which is the same for every message to a peer. */
export type MessageBody<M> = M extends unknown ? Omit<M, "header"> : never;

/** Reads the header fields of a decoded message. */
export function readHeader(fields: Record<string, unknown>): MessageHeader {
	const sender = readOptionalName(
		fields.sender_control_endpoint,
		"sender_control_endpoint",
	);
	const source = readOptionalName(
		fields.source_control_endpoint,
		"source_control_endpoint",
	);
	return {
		targetAgent: readName(fields.target_agent, "target_agent"),
		senderIncarnation: readIncarnation(
			fields.sender_incarnation,
			"sender_incarnation",
		),
		senderControlEndpoint: sender,
		sourceControlEndpoint: source,
	};
}

/** Reads the header of a reply, which is of no use without the endpoint it echoes. */
export function readReplyHeader(
	fields: Record<string, unknown>,
): MessageHeader {
	const header = readHeader(fields);
	if (header.senderControlEndpoint === undefined)
		throw new FieldViolation(
			"sender_control_endpoint",
			fields.sender_control_endpoint,
			"present in a reply",
		);
	return header;
}

/** Appends the header fields. */
export function writeHeader(map: WireMap, header: MessageHeader): void {
	map.target_agent = header.targetAgent;
	map.sender_incarnation = header.senderIncarnation;
	// A reply has set it already, at the place where the reference peer puts it.
	if (
		header.senderControlEndpoint !== undefined &&
		map.sender_control_endpoint === undefined
	)
		map.sender_control_endpoint = header.senderControlEndpoint;
	if (header.sourceControlEndpoint !== undefined)
		map.source_control_endpoint = header.sourceControlEndpoint;
}

/** A new map for a reply of this type, its echoed endpoint first. */
export function replyMap(type: string, header: MessageHeader): WireMap {
	const map: WireMap = { type };
	if (header.senderControlEndpoint !== undefined)
		map.sender_control_endpoint = header.senderControlEndpoint;
	return map;
}
