/** The metadata blob of a portable agent: where it listens, the token that opens its door, and its regions. */
import { types } from "node:util";
import { InvalidMetadataError } from "../ports/errors.js";
import type { MetadataRegion } from "./checks.js";
import { isPort, isWildcardHost } from "./host.js";

const MAGIC = "kvcr-portable 1\n";

/** Largest blob, in bytes. */
const MAX_METADATA_BYTES = 512 * 1024;

/** Bytes of a token. */
export const TOKEN_BYTES = 32;

/** Longest agent name, in UTF-8 bytes. */
export const MAX_AGENT_NAME_BYTES = 512;

/** What the blob says. */
export interface PortableMetadata {
	readonly name: string;
	readonly host: string;
	readonly port: number;
	/** Random secret of one running agent; whoever knows it may write to the agent's regions. */
	readonly token: Uint8Array;
	readonly regions: readonly MetadataRegion[];
}

/** Encodes a blob. */
export function encodeMetadata(metadata: PortableMetadata): Uint8Array {
	const { name, host, port, token, regions } = metadata;
	const list = regions.map(({ addr, count, size }) => [`${addr}`, count, size]);
	const secret = Buffer.from(token).toString("base64url");
	return new TextEncoder().encode(
		MAGIC + JSON.stringify([name, host, port, secret, list]),
	);
}

/**
 * Decodes a blob that came from a peer.
 * @throws InvalidMetadataError
 */
export function decodeMetadata(
	operation: string,
	bytes: Uint8Array,
): PortableMetadata {
	const refuse = (reason: string, cause?: unknown) =>
		new InvalidMetadataError(operation, bytes, reason, { cause });
	// By its insides: a prototype can be given to anything.
	if (!types.isUint8Array(bytes)) throw refuse("it is not bytes");
	if (bytes.byteLength > MAX_METADATA_BYTES) throw refuse("it is too large");
	const text = Buffer.from(
		bytes.buffer,
		bytes.byteOffset,
		bytes.byteLength,
	).toString("utf8");
	if (!text.startsWith(MAGIC))
		throw refuse("it is not from an agent of this kind");
	let value: unknown;
	try {
		value = JSON.parse(text.slice(MAGIC.length));
	} catch (cause) {
		throw refuse("it is damaged", cause);
	}
	if (!Array.isArray(value) || value.length !== 5)
		throw refuse("it is damaged");
	const [name, host, port, secret, list] = value as unknown[];
	if (!isAgentName(name)) throw refuse("its agent name is unusable");
	if (typeof host !== "string" || isWildcardHost(host) || !isPort(port))
		throw refuse("its address is unusable");
	const token = Buffer.from(
		typeof secret === "string" ? secret : "",
		"base64url",
	);
	if (token.byteLength !== TOKEN_BYTES) throw refuse("its token is unusable");
	if (!Array.isArray(list)) throw refuse("its regions are unusable");
	const regions = list.map((entry: unknown) => {
		const region = decodeRegion(entry);
		if (region === undefined) throw refuse("its regions are unusable");
		return region;
	});
	return { name, host, port, token, regions };
}

/** Whether a value can be the name of an agent: 1 to {@link MAX_AGENT_NAME_BYTES} bytes of UTF-8, as peers will read it. */
export function isAgentName(value: unknown): value is string {
	return (
		typeof value === "string" &&
		value.length > 0 &&
		!/\p{Surrogate}/u.test(value) &&
		Buffer.byteLength(value) <= MAX_AGENT_NAME_BYTES
	);
}

function decodeRegion(entry: unknown): MetadataRegion | undefined {
	if (!Array.isArray(entry) || entry.length !== 3) return undefined;
	const [addr, count, size] = entry as unknown[];
	if (typeof addr !== "string" || !/^\d{1,20}$/.test(addr)) return undefined;
	if (!isCount(count) || !isCount(size)) return undefined;
	return { addr: BigInt(addr), count, size };
}

function isCount(value: unknown): value is number {
	return Number.isSafeInteger(value) && (value as number) >= 1;
}
