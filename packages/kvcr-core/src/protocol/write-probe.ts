/** `write_probe`, target → source: what became of this operation? Also fences a `start_write` that comes later. */
import type { Incarnation, OpHandle } from "../ports/names.js";
import { pack, shortest, type WireMap } from "./codec.js";
import { readOpHandle, readOptionalIncarnation } from "./fields.js";
import {
	type MessageBody,
	type MessageHeader,
	readHeader,
	writeHeader,
} from "./header.js";
import { type PeerMetadata, readPeer, writePeer } from "./regions.js";

export interface WriteProbeMessage {
	readonly type: "write_probe";
	readonly header: MessageHeader;
	readonly opHandle: OpHandle;
	/** The incarnation the operation was addressed to, where the target knows it. */
	readonly sourceIncarnation?: Incarnation;
	/** Sent again at a limited rate while unacknowledged. */
	readonly peer?: PeerMetadata;
}

export function encodeWriteProbe(
	message: MessageBody<WriteProbeMessage>,
	header: MessageHeader,
): Uint8Array {
	const map: WireMap = {
		type: message.type,
		op_handle: shortest(message.opHandle),
		source_incarnation: message.sourceIncarnation ?? null,
	};
	writeHeader(map, header);
	writePeer(map, message.peer);
	return pack(map);
}

export function readWriteProbe(
	fields: Record<string, unknown>,
): WriteProbeMessage {
	const sourceIncarnation = readOptionalIncarnation(
		fields.source_incarnation,
		"source_incarnation",
	);
	const peer = readPeer(fields);
	return {
		type: "write_probe",
		header: readHeader(fields),
		opHandle: readOpHandle(fields.op_handle),
		...(sourceIncarnation === undefined ? {} : { sourceIncarnation }),
		...(peer === undefined ? {} : { peer }),
	};
}
