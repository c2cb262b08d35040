/** `write_refused`, source → target: this operation never was and never will be submitted. */
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

export interface WriteRefusedMessage {
	readonly type: "write_refused";
	readonly header: MessageHeader;
	readonly opHandle: OpHandle;
}

export function encodeWriteRefused(
	message: MessageBody<WriteRefusedMessage>,
	header: MessageHeader,
): Uint8Array {
	const map = replyMap(message.type, header);
	map.op_handle = shortest(message.opHandle);
	writeHeader(map, header);
	return pack(map);
}

export function readWriteRefused(
	fields: Record<string, unknown>,
): WriteRefusedMessage {
	return {
		type: "write_refused",
		header: readReplyHeader(fields),
		opHandle: readOpHandle(fields.op_handle),
	};
}
