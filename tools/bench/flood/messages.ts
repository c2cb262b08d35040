/** What a hostile peer sends: control messages that are valid or nearly so, and noise. Encoded once, sent over and over. */
import { randomBytes, randomInt } from "node:crypto";
import { encode } from "@msgpack/msgpack";
import { hashOf, keyOf, SOURCE_BLOCKS } from "./shared.js";

/** Kinds of floods. */
export type FloodKind = "valid" | "random" | "mixed";

/** Whom the messages claim to be from. */
export interface Identity {
	/** One that the source knows; default: ever new ones that it does not. */
	readonly peer?: { readonly agent: string; readonly incarnation: string };
	/** Endpoint for answers. */
	readonly replyTo: string;
}

/** A few hundred different messages of a kind. */
export function floodMessages(
	kind: FloodKind,
	endpoint: string,
	identity: Identity,
): Uint8Array[] {
	return Array.from({ length: 256 }, (_, at) => {
		if (kind === "random" || (kind === "mixed" && at % 2 === 0))
			return noise(at);
		return validLooking(at, endpoint, identity);
	});
}

function noise(at: number): Uint8Array {
	const bytes = randomBytes(16 + randomInt(at % 16 === 0 ? 60_000 : 600));
	// Some of it looks like the beginning of a map, so that decoding gets further.
	if (at % 3 === 0) bytes[0] = 0x8a;
	return bytes;
}

function validLooking(
	at: number,
	endpoint: string,
	{ peer, replyTo }: Identity,
): Uint8Array {
	const header = {
		target_agent: peer?.agent ?? `mallory-${at}`,
		sender_incarnation: peer?.incarnation ?? randomBytes(16).toString("hex"),
		sender_control_endpoint: replyTo,
		source_control_endpoint: endpoint,
	};
	const hashes = (count: number) =>
		Array.from({ length: count }, (_, n) => hashOf(n % SOURCE_BLOCKS));
	switch (at % 6) {
		case 0:
			return pack({
				type: "resolve_hashes",
				resolution_id: BigInt(at),
				hashes: hashes(1024),
				remaining_timeout_ms: 1000,
				...header,
			});
		case 1:
			return pack({
				type: "resolve_hashes",
				resolution_id: BigInt(at),
				hashes: hashes(4),
				remaining_timeout_ms: 1000,
				...header,
			});
		case 2:
			return pack({
				type: "start_write",
				op_handle: BigInt(at),
				remaining_timeout_ms: 1000,
				source_incarnation: null,
				// Of blocks that are not there: each is looked for, and answered.
				keys: hashes(64).map((hash) => keyOf(hash + 0x1_0000n)),
				dst_descriptors: hashes(64).map((_, n) => [
					{
						end_point_name: header.target_agent,
						element_index: n,
						label: "kv",
						framework: false,
					},
				]),
				allow_layout_subset: false,
				...header,
			});
		case 3:
			return pack({ type: "write_probe", op_handle: BigInt(at), ...header });
		case 4:
			return pack({
				type: "target_metadata",
				target_agent_metadata: randomBytes(512),
				target_regions: [
					{},
					{
						kv: {
							mem_type: "DRAM",
							device_Id: 0,
							addr: 4096,
							stride: 65_536,
							count: 16,
							size: 65_536,
							label: "kv",
						},
					},
				],
				...header,
			});
		default:
			return pack({
				type: "hashes_resolved",
				resolution_id: BigInt(at),
				results: [["not_found"]],
				...header,
			});
	}
}

function pack(message: Record<string, unknown>): Uint8Array {
	return encode(message, { useBigInt64: true });
}
