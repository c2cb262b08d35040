/**
 * The field names of the wire. Every message has the same dozen, most of them longer than a decoder keeps by itself;
 * known here, they are compared instead of built anew from every message.
 */
import { KnownTexts } from "../ports/known-texts.js";

const NAMES = new KnownTexts([
	"addr",
	"allow_framework",
	"allow_layout_subset",
	"completed_indices",
	"count",
	"dead_incarnation",
	"device_Id",
	"dst_descriptors",
	"element_index",
	"end_point_name",
	"framework",
	"hashes",
	"keys",
	"label",
	"mem_type",
	"mode",
	"op_handle",
	"remaining_timeout_ms",
	"resolution_id",
	"results",
	"sender_control_endpoint",
	"sender_incarnation",
	"size",
	"source_control_endpoint",
	"source_incarnation",
	"stride",
	"success",
	"target_agent",
	"target_agent_metadata",
	"target_regions",
	"terminal",
	"type",
]);

/** Gives map keys to the decoder: the known ones as they are here, others as new strings. */
export const fieldNames = {
	/** Whether there are names of this length. */
	canBeCached: (length: number): boolean => NAMES.hasLength(length),

	/** The text at `bytes[at, at + length)`, which is UTF-8. */
	decode(bytes: Uint8Array, at: number, length: number): string {
		const known = NAMES.find(bytes, at, length);
		if (known !== undefined) return known;
		const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
		return view.toString("utf8", at, at + length);
	},
};
