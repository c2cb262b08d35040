/** `hashes_resolved`, source → target: one result per hash asked for, in the same order. */
import type { BlockKey } from "../ports/names.js";
import { pack, shortest, type WireValue } from "./codec.js";
import { FieldViolation, MalformedHashesResolvedError } from "./errors.js";
import {
	readArray,
	readInteger,
	readKey,
	readText,
	readUint64,
} from "./fields.js";
import {
	type MessageBody,
	type MessageHeader,
	readReplyHeader,
	replyMap,
	writeHeader,
} from "./header.js";
import {
	MAX_HASHES_PER_MESSAGE,
	MAX_LABELS_PER_KEY,
	MAX_STRING_BYTES,
} from "./limits.js";

/** Why a hash was not resolved. */
export type UnresolvedStatus =
	| "not_found"
	| "ambiguous_hash"
	| "not_resident"
	| "lookup_failed"
	| "self_source"
	| "unsupported";

/** A hash that names one block which the source has in ready managed G2. */
export interface ResolvedHash {
	readonly status: "resolved";
	/** The full key. */
	readonly key: BlockKey;
	/** Pool labels of the pieces in order, at least one. */
	readonly labels: readonly string[];
	/** Bytes of each piece. */
	readonly sizes: readonly number[];
	/** XXH64 of all pieces in order, where the source keeps checksums and has computed this one. */
	readonly checksum?: bigint | undefined;
}

/** The source's answer for one hash. */
export type HashResult = ResolvedHash | { readonly status: UnresolvedStatus };

/** The one result object per status, shared by everybody. */
export const UNRESOLVED: Readonly<
	Record<UnresolvedStatus, { readonly status: UnresolvedStatus }>
> = {
	not_found: { status: "not_found" },
	ambiguous_hash: { status: "ambiguous_hash" },
	not_resident: { status: "not_resident" },
	lookup_failed: { status: "lookup_failed" },
	self_source: { status: "self_source" },
	unsupported: { status: "unsupported" },
};

export interface HashesResolvedMessage {
	readonly type: "hashes_resolved";
	readonly header: MessageHeader;
	readonly resolutionId: bigint;
	/** At most {@link MAX_HASHES_PER_MESSAGE}. */
	readonly results: readonly HashResult[];
}

export function encodeHashesResolved(
	message: MessageBody<HashesResolvedMessage>,
	header: MessageHeader,
): Uint8Array {
	const map = replyMap(message.type, header);
	map.resolution_id = shortest(message.resolutionId);
	map.results = message.results.map(
		(result): WireValue =>
			result.status === "resolved"
				? [
						result.status,
						result.key,
						result.labels,
						result.sizes.map(shortest),
						...(result.checksum === undefined
							? []
							: [shortest(result.checksum)]),
					]
				: [result.status],
	);
	writeHeader(map, header);
	return pack(map);
}

/** @throws MalformedHashesResolvedError when the ID and the echoed endpoint are readable and anything else is not. */
export function readHashesResolved(
	fields: Record<string, unknown>,
): HashesResolvedMessage {
	const resolutionId = readUint64(fields.resolution_id, "resolution_id");
	try {
		return {
			type: "hashes_resolved",
			header: readReplyHeader(fields),
			resolutionId,
			results: readResults(fields.results),
		};
	} catch (error) {
		const endpoint = fields.sender_control_endpoint;
		if (
			!(error instanceof FieldViolation) ||
			typeof endpoint !== "string" ||
			endpoint === "" ||
			endpoint.length > MAX_STRING_BYTES
		)
			throw error;
		throw new MalformedHashesResolvedError(error, resolutionId, endpoint);
	}
}

function readResults(value: unknown): HashResult[] {
	const entries = readArray(value, "results", 0, MAX_HASHES_PER_MESSAGE);
	const layouts = new LayoutReader();
	const results = entries.map((entry, i) => readResult(entry, i, layouts));
	moveKeysOutOfMessage(results);
	return results as HashResult[];
}

type OpenResult =
	| { status: UnresolvedStatus }
	| {
			status: "resolved";
			key: BlockKey;
			labels: readonly string[];
			sizes: readonly number[];
			checksum: bigint | undefined;
	  };

function readResult(
	value: unknown,
	i: number,
	layouts: LayoutReader,
): OpenResult {
	const path = `results[${i}]`;
	const entry = readArray(value, path, 1, 5);
	const [status, key, labels, sizes, checksum] = entry;
	if (status === "resolved" && entry.length >= 4) {
		const layout = layouts.read(labels, sizes, path);
		return {
			status,
			key: readKey(key, `${path}[1]`),
			labels: layout.labels,
			sizes: layout.sizes,
			checksum:
				entry.length === 5 ? readUint64(checksum, `${path}[4]`) : undefined,
		};
	}
	if (
		entry.length === 1 &&
		typeof status === "string" &&
		Object.hasOwn(UNRESOLVED, status)
	)
		return UNRESOLVED[status as UnresolvedStatus];
	throw new FieldViolation(
		path,
		value,
		"[status] or [resolved, key, labels, sizes, checksum?]",
	);
}

/** Labels and sizes of one layout. */
type Layout = Pick<ResolvedHash, "labels" | "sizes">;

/** The layout read last, in whatever message: an engine has few, and the next one is mostly the same. */
let recentLayout: Layout | undefined;

/** The layouts of one message are few, and mostly follow their like: equal ones become one pair of arrays. */
class LayoutReader {
	readonly #known = new Map<string, Layout>();

	read(labels: unknown, sizes: unknown, path: string): Layout {
		const recent = recentLayout;
		if (
			recent !== undefined &&
			isList(labels, recent.labels) &&
			isList(sizes, recent.sizes)
		)
			return recent;
		const layout = this.#check(labels, sizes, path);
		const name = JSON.stringify([layout.labels, layout.sizes]);
		const known = this.#known.get(name) ?? layout;
		this.#known.set(name, known);
		recentLayout = known;
		return known;
	}

	#check(rawLabels: unknown, rawSizes: unknown, path: string): Layout {
		const labels = readArray(
			rawLabels,
			`${path}[2]`,
			1,
			MAX_LABELS_PER_KEY,
		).map((label, j) => readText(label, `${path}[2][${j}]`));
		const sizes = readArray(
			rawSizes,
			`${path}[3]`,
			labels.length,
			labels.length,
		).map((size, j) => readInteger(size, `${path}[3][${j}]`, 1));
		return { labels: Object.freeze(labels), sizes: Object.freeze(sizes) };
	}
}

/** Whether a decoded value is a list of exactly these strings or numbers. */
function isList(value: unknown, of: readonly (string | number)[]): boolean {
	return (
		Array.isArray(value) &&
		value.length === of.length &&
		of.every((entry, i) => entry === value[i])
	);
}

/** Keys outlive the message; views of it would keep all of its bytes. They move to one buffer of their own. */
function moveKeysOutOfMessage(results: readonly OpenResult[]): void {
	let total = 0;
	for (const result of results)
		if (result.status === "resolved") total += result.key.byteLength;
	if (total === 0) return;
	const bytes = new Uint8Array(total);
	let at = 0;
	for (const result of results) {
		if (result.status !== "resolved") continue;
		bytes.set(result.key, at);
		const end = at + result.key.byteLength;
		result.key = bytes.subarray(at, end) as BlockKey;
		at = end;
	}
}
