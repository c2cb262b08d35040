/** `write_probe_ack`, source → target: the answer to a `write_probe`. */
import type { Incarnation, OpHandle } from "../ports/names.js";
import { pack, shortest } from "./codec.js";
import {
	readBoolean,
	readOpHandle,
	readOptionalIncarnation,
} from "./fields.js";
import {
	type MessageBody,
	type MessageHeader,
	readReplyHeader,
	replyMap,
	writeHeader,
} from "./header.js";

export interface WriteProbeAckMessage {
	readonly type: "write_probe_ack";
	readonly header: MessageHeader;
	readonly opHandle: OpHandle;
	/** True: nothing was or will be submitted for it. */
	readonly terminal: boolean;
	/** An incarnation that is proven dead, so that none of its writes can still land. */
	readonly deadIncarnation?: Incarnation;
}

export function encodeWriteProbeAck(
	message: MessageBody<WriteProbeAckMessage>,
	header: MessageHeader,
): Uint8Array {
	const map = replyMap(message.type, header);
	map.op_handle = shortest(message.opHandle);
	map.terminal = message.terminal;
	if (message.deadIncarnation !== undefined)
		map.dead_incarnation = message.deadIncarnation;
	writeHeader(map, header);
	return pack(map);
}

export function readWriteProbeAck(
	fields: Record<string, unknown>,
): WriteProbeAckMessage {
	const dead = readOptionalIncarnation(
		fields.dead_incarnation,
		"dead_incarnation",
	);
	return {
		type: "write_probe_ack",
		header: readReplyHeader(fields),
		opHandle: readOpHandle(fields.op_handle),
		terminal: readBoolean(fields.terminal, "terminal"),
		...(dead === undefined ? {} : { deadIncarnation: dead }),
	};
}
