/** All control messages together: the union, and the two functions that everything else uses. */
import { MalformedMessageError } from "../ports/errors.js";
import { unpack } from "./codec.js";
import { FieldViolation } from "./errors.js";
import {
	encodeHashesResolved,
	type HashesResolvedMessage,
	readHashesResolved,
} from "./hashes-resolved.js";
import type { MessageBody, MessageHeader } from "./header.js";
import {
	encodeResolveHashes,
	type ResolveHashesMessage,
	readResolveHashes,
} from "./resolve-hashes.js";
import {
	encodeStartWrite,
	readStartWrite,
	type StartWriteMessage,
} from "./start-write.js";
import {
	encodeTargetMetadata,
	readTargetMetadata,
	type TargetMetadataMessage,
} from "./target-metadata.js";
import {
	encodeTargetMetadataAck,
	readTargetMetadataAck,
	type TargetMetadataAckMessage,
} from "./target-metadata-ack.js";
import {
	encodeWriteProbe,
	readWriteProbe,
	type WriteProbeMessage,
} from "./write-probe.js";
import {
	encodeWriteProbeAck,
	readWriteProbeAck,
	type WriteProbeAckMessage,
} from "./write-probe-ack.js";
import {
	encodeWriteRefused,
	readWriteRefused,
	type WriteRefusedMessage,
} from "./write-refused.js";

/** Any message of the control channel. */
export type ControlMessage =
	| TargetMetadataMessage
	| TargetMetadataAckMessage
	| StartWriteMessage
	| WriteRefusedMessage
	| WriteProbeMessage
	| WriteProbeAckMessage
	| ResolveHashesMessage
	| HashesResolvedMessage;

/** Wire types known here. */
export type ControlMessageType = ControlMessage["type"];

/** A control message without its header. */
export type ControlMessageBody = MessageBody<ControlMessage>;

/** Encodes a message. What it holds is the caller's responsibility; the channel refuses what is too large. */
export function encodeControlMessage(message: ControlMessage): Uint8Array {
	return encodeControlBody(message, message.header);
}

/** {@link encodeControlMessage} for a message whose header comes apart from it. */
export function encodeControlBody(
	body: ControlMessageBody,
	header: MessageHeader,
): Uint8Array {
	switch (body.type) {
		case "target_metadata":
			return encodeTargetMetadata(body, header);
		case "target_metadata_ack":
			return encodeTargetMetadataAck(body, header);
		case "start_write":
			return encodeStartWrite(body, header);
		case "write_refused":
			return encodeWriteRefused(body, header);
		case "write_probe":
			return encodeWriteProbe(body, header);
		case "write_probe_ack":
			return encodeWriteProbeAck(body, header);
		case "resolve_hashes":
			return encodeResolveHashes(body, header);
		case "hashes_resolved":
			return encodeHashesResolved(body, header);
	}
}

/**
 * Decodes and checks a message. Unknown fields are ignored; a message of a type not known here gives `undefined`.
 * Memory and time are bounded by the length of `bytes`, whatever they claim.
 * @throws MalformedMessageError for everything else; a `MalformedStartWriteError` or `MalformedHashesResolvedError`
 * where the operation it belongs to is still readable. Nothing else is ever thrown.
 */
export function decodeControlMessage(
	bytes: Uint8Array,
): ControlMessage | undefined {
	let type: string | undefined;
	try {
		const fields = unpack(bytes);
		if (typeof fields.type !== "string")
			throw new FieldViolation("type", fields.type, "a string");
		type = fields.type;
		return Object.hasOwn(READERS, type)
			? READERS[type as ControlMessageType](fields)
			: undefined;
	} catch (error) {
		if (error instanceof FieldViolation)
			throw new MalformedMessageError(
				type,
				error.field,
				error.value,
				error.expected,
			);
		throw error;
	}
}

const READERS: {
	readonly [T in ControlMessageType]: (
		fields: Record<string, unknown>,
	) => Extract<ControlMessage, { type: T }>;
} = {
	target_metadata: readTargetMetadata,
	target_metadata_ack: readTargetMetadataAck,
	start_write: readStartWrite,
	write_refused: readWriteRefused,
	write_probe: readWriteProbe,
	write_probe_ack: readWriteProbeAck,
	resolve_hashes: readResolveHashes,
	hashes_resolved: readHashesResolved,
};
