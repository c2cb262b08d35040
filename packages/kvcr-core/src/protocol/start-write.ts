/** `start_write`, target → source: asks the source to write blocks into the target's memory. */
import {
	type BlockKey,
	type Incarnation,
	keyText,
	type OpHandle,
} from "../ports/names.js";
import { pack, shortest, type WireMap } from "./codec.js";
import {
	readElementLists,
	type TransferElement,
	wireElementLists,
} from "./elements.js";
import { FieldViolation, MalformedStartWriteError } from "./errors.js";
import {
	incarnationOf,
	readArray,
	readKey,
	readOpHandle,
	readOptionalBoolean,
	readOptionalIncarnation,
	readTimeoutMs,
} from "./fields.js";
import {
	type MessageBody,
	type MessageHeader,
	readHeader,
	writeHeader,
} from "./header.js";
import { MAX_KEYS_PER_WRITE, MAX_STRING_BYTES } from "./limits.js";
import { type PeerMetadata, readPeer, writePeer } from "./regions.js";

/** Whether the source keeps its copy (`copy`) or may drop it once the write completed (`move`). */
export type TransferMode = "copy" | "move";

export interface StartWriteMessage {
	readonly type: "start_write";
	readonly header: MessageHeader;
	/** The target's name of the operation; the notification carries it back. */
	readonly opHandle: OpHandle;
	/** Time left until the target's operation deadline, in milliseconds: finite, above 0. */
	readonly remainingTimeoutMs: number;
	/** The incarnation the target believes it talks to; a source with another one refuses. Absent: any. */
	readonly sourceIncarnation?: Incarnation | undefined;
	/** At least one, all different. Views of the received message after decoding. */
	readonly keys: readonly BlockKey[];
	/** Per key its destination elements, at least one each, all owned by the sending agent. */
	readonly dstDescriptors: readonly (readonly TransferElement[])[];
	/** Whether a key's elements may cover only some labels of its layout. */
	readonly allowLayoutSubset: boolean;
	/** Whether framework memory may serve keys that are not in managed G2. On the wire only when false. */
	readonly allowFramework: boolean;
	/** On the wire only when `move`. */
	readonly mode: TransferMode;
	/** Left out when the source is known to have it. */
	readonly peer?: PeerMetadata | undefined;
}

export function encodeStartWrite(
	message: MessageBody<StartWriteMessage>,
	header: MessageHeader,
): Uint8Array {
	const map: WireMap = {
		type: message.type,
		op_handle: shortest(message.opHandle),
		remaining_timeout_ms: message.remainingTimeoutMs,
		source_incarnation: message.sourceIncarnation ?? null,
		keys: message.keys,
		dst_descriptors: wireElementLists(message.dstDescriptors),
		allow_layout_subset: message.allowLayoutSubset,
	};
	if (!message.allowFramework) map.allow_framework = false;
	if (message.mode === "move") map.mode = "move";
	writeHeader(map, header);
	writePeer(map, message.peer);
	return pack(map);
}

/** @throws MalformedStartWriteError when the handle is readable and anything else is not. */
export function readStartWrite(
	fields: Record<string, unknown>,
): StartWriteMessage {
	const opHandle = readOpHandle(fields.op_handle);
	try {
		return readBody(fields, opHandle);
	} catch (error) {
		if (!(error instanceof FieldViolation)) throw error;
		throw new MalformedStartWriteError(error, opHandle, {
			targetAgent: nameOf(fields.target_agent),
			senderIncarnation: incarnationOf(fields.sender_incarnation),
			senderControlEndpoint: nameOf(fields.sender_control_endpoint),
			sourceControlEndpoint: nameOf(fields.source_control_endpoint),
		});
	}
}

function readBody(
	fields: Record<string, unknown>,
	opHandle: OpHandle,
): StartWriteMessage {
	const header = readHeader(fields);
	const sourceIncarnation = readOptionalIncarnation(
		fields.source_incarnation,
		"source_incarnation",
	);
	const keys = readKeys(fields.keys);
	const mode = fields.mode ?? "copy";
	if (mode !== "copy" && mode !== "move")
		throw new FieldViolation("mode", mode, `"copy" or "move"`);
	return {
		type: "start_write",
		header,
		opHandle,
		remainingTimeoutMs: readTimeoutMs(fields.remaining_timeout_ms),
		sourceIncarnation,
		keys,
		dstDescriptors: readElementLists(
			fields.dst_descriptors,
			"dst_descriptors",
			keys.length,
			header.targetAgent,
		),
		allowLayoutSubset: readOptionalBoolean(
			fields.allow_layout_subset,
			"allow_layout_subset",
			false,
		),
		allowFramework: readOptionalBoolean(
			fields.allow_framework,
			"allow_framework",
			true,
		),
		mode,
		peer: readPeer(fields),
	};
}

function readKeys(value: unknown): BlockKey[] {
	const entries = readArray(value, "keys", 1, MAX_KEYS_PER_WRITE);
	const seen = new Set<string>();
	return entries.map((entry, i) => {
		const key = readKey(entry, `keys[${i}]`);
		if (seen.size === seen.add(keyText(key)).size)
			throw new FieldViolation(`keys[${i}]`, key, "unlike every key before it");
		return key;
	});
}

function nameOf(value: unknown): string | undefined {
	return typeof value === "string" &&
		value !== "" &&
		value.length <= MAX_STRING_BYTES
		? value
		: undefined;
}
