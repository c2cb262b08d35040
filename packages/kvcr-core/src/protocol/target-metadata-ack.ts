/** `target_metadata_ack`, source → target: the source holds the target's metadata now. */
import type { OpHandle } from "../ports/names.js";
import { pack, shortest } from "./codec.js";
import { readOpHandle } from "./fields.js";
import {
	type MessageBody,
	type MessageHeader,
	readReplyHeader,
	replyMap,
	writeHeader,
} from "./header.js";

export interface TargetMetadataAckMessage {
	readonly type: "target_metadata_ack";
	readonly header: MessageHeader;
	/** The operation whose `start_write` brought the metadata. */
	readonly opHandle?: OpHandle;
}

export function encodeTargetMetadataAck(
	message: MessageBody<TargetMetadataAckMessage>,
	header: MessageHeader,
): Uint8Array {
	const map = replyMap(message.type, header);
	if (message.opHandle !== undefined)
		map.op_handle = shortest(message.opHandle);
	writeHeader(map, header);
	return pack(map);
}

export function readTargetMetadataAck(
	fields: Record<string, unknown>,
): TargetMetadataAckMessage {
	const header = readReplyHeader(fields);
	const handle = fields.op_handle;
	return {
		type: "target_metadata_ack",
		header,
		...(handle === undefined || handle === null
			? {}
			: { opHandle: readOpHandle(handle) }),
	};
}
