/** `target_metadata`, target → source: connect ahead of need. */
import { pack, type WireMap } from "./codec.js";
import {
	type MessageBody,
	type MessageHeader,
	readHeader,
	writeHeader,
} from "./header.js";
import { type PeerMetadata, readPeer, writePeer } from "./regions.js";

export interface TargetMetadataMessage {
	readonly type: "target_metadata";
	readonly header: MessageHeader;
	/** Left out when the source is known to have it. */
	readonly peer?: PeerMetadata;
}

export function encodeTargetMetadata(
	message: MessageBody<TargetMetadataMessage>,
	header: MessageHeader,
): Uint8Array {
	const map: WireMap = { type: message.type };
	writeHeader(map, header);
	writePeer(map, message.peer);
	return pack(map);
}

export function readTargetMetadata(
	fields: Record<string, unknown>,
): TargetMetadataMessage {
	const header = readHeader(fields);
	const peer = readPeer(fields);
	return {
		type: "target_metadata",
		header,
		...(peer === undefined ? {} : { peer }),
	};
}
