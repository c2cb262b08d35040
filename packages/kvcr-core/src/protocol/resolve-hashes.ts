/** `resolve_hashes`, target → source: which full keys do these router hashes name, and are they resident? */
import type { RouterHash } from "../ports/names.js";
import { pack, shortest, type WireMap } from "./codec.js";
import { FieldViolation } from "./errors.js";
import { integerOf, readArray, readTimeoutMs, readUint64 } from "./fields.js";
import {
	type MessageBody,
	type MessageHeader,
	readHeader,
	writeHeader,
} from "./header.js";
import { MAX_HASHES_PER_MESSAGE } from "./limits.js";
import { type PeerMetadata, readPeer, writePeer } from "./regions.js";

export interface ResolveHashesMessage {
	readonly type: "resolve_hashes";
	readonly header: MessageHeader;
	/** The asker's name of this exchange, 0 to 2^64-1. */
	readonly resolutionId: bigint;
	/** 1 to {@link MAX_HASHES_PER_MESSAGE} hashes. */
	readonly hashes: readonly RouterHash[];
	/** Time left until the asker gives up, in milliseconds: finite, above 0. */
	readonly remainingTimeoutMs: number;
	readonly peer?: PeerMetadata | undefined;
}

export function encodeResolveHashes(
	message: MessageBody<ResolveHashesMessage>,
	header: MessageHeader,
): Uint8Array {
	const map: WireMap = {
		type: message.type,
		resolution_id: shortest(message.resolutionId),
		hashes: message.hashes.map(shortest),
		remaining_timeout_ms: message.remainingTimeoutMs,
	};
	writeHeader(map, header);
	writePeer(map, message.peer);
	return pack(map);
}

export function readResolveHashes(
	fields: Record<string, unknown>,
): ResolveHashesMessage {
	return {
		type: "resolve_hashes",
		header: readHeader(fields),
		resolutionId: readUint64(fields.resolution_id, "resolution_id"),
		hashes: readHashes(fields.hashes),
		remainingTimeoutMs: readTimeoutMs(fields.remaining_timeout_ms),
		peer: readPeer(fields),
	};
}

function readHashes(value: unknown): RouterHash[] {
	return readArray(value, "hashes", 1, MAX_HASHES_PER_MESSAGE).map(
		(entry, i) => {
			const hash = integerOf(entry);
			// Eight bytes of MessagePack hold nothing above 2^64-1.
			if (hash === undefined || hash < 0n)
				throw new FieldViolation(
					`hashes[${i}]`,
					entry,
					"an unsigned 64-bit integer",
				);
			return hash as RouterHash;
		},
	);
}
