/** The wire: control messages and transfer notifications, encoded, decoded and validated. */
export type { TransferElement } from "./elements.js";
export {
	FieldViolation,
	MalformedHashesResolvedError,
	MalformedStartWriteError,
} from "./errors.js";
export {
	type HashesResolvedMessage,
	type HashResult,
	type ResolvedHash,
	UNRESOLVED,
	type UnresolvedStatus,
} from "./hashes-resolved.js";
export type { MessageHeader } from "./header.js";
export * from "./limits.js";
export {
	type ControlMessage,
	type ControlMessageBody,
	type ControlMessageType,
	decodeControlMessage,
	encodeControlBody,
	encodeControlMessage,
} from "./messages.js";
export {
	matchingLabel,
	type PeerMetadata,
	type TargetRegions,
} from "./regions.js";
export type { ResolveHashesMessage } from "./resolve-hashes.js";
export type { StartWriteMessage, TransferMode } from "./start-write.js";
export type { TargetMetadataMessage } from "./target-metadata.js";
export type { TargetMetadataAckMessage } from "./target-metadata-ack.js";
export {
	decodeNotification,
	encodeWriteDone,
	type WriteDone,
	type WriteDoneFields,
} from "./write-done.js";
export type { WriteProbeMessage } from "./write-probe.js";
export type { WriteProbeAckMessage } from "./write-probe-ack.js";
export type { WriteRefusedMessage } from "./write-refused.js";
