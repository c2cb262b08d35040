/** The metadata blob of scripted agents: text with the agent's name, incarnation and regions. */

import type { MetadataRegion } from "../portable/checks.js";
import { InvalidMetadataError } from "../ports/errors.js";

const MAGIC = "kvcr-memory-fabric 1\n";
const MAX_BYTES = 1 << 20;

/** What the blob says. */
export interface FabricMetadata {
	readonly name: string;
	readonly incarnation: number;
	readonly regions: readonly MetadataRegion[];
}

/** Encodes a blob. */
export function encodeFabricMetadata(metadata: FabricMetadata): Uint8Array {
	const regions = metadata.regions.map((region) => [
		`${region.addr}`,
		region.count,
		region.size,
	]);
	return new TextEncoder().encode(
		MAGIC + JSON.stringify([metadata.name, metadata.incarnation, regions]),
	);
}

/**
 * Decodes a blob.
 * @throws InvalidMetadataError
 */
export function decodeFabricMetadata(
	operation: string,
	bytes: Uint8Array,
): FabricMetadata {
	const bad = (reason: string, cause?: unknown): never => {
		throw new InvalidMetadataError(operation, bytes, reason, { cause });
	};
	if (!(bytes instanceof Uint8Array)) return bad("it is not bytes");
	if (bytes.byteLength > MAX_BYTES) return bad("it is too large");
	const text = Buffer.from(bytes).toString("utf8");
	if (!text.startsWith(MAGIC))
		return bad("it is not from an agent of this kind");
	let value: unknown;
	try {
		value = JSON.parse(text.slice(MAGIC.length));
	} catch (cause) {
		return bad("it is damaged", cause);
	}
	if (!Array.isArray(value) || value.length !== 3) return bad("it is damaged");
	const [name, incarnation, list] = value as unknown[];
	if (
		typeof name !== "string" ||
		!Number.isSafeInteger(incarnation) ||
		!Array.isArray(list)
	)
		return bad("it is damaged");
	const regions = list.map((entry: unknown) => {
		const [addr, count, size] = Array.isArray(entry)
			? (entry as unknown[])
			: [];
		if (
			typeof addr !== "string" ||
			!/^\d{1,20}$/.test(addr) ||
			!isCount(count) ||
			!isCount(size)
		)
			return bad("it lists a damaged region");
		return { addr: BigInt(addr), count, size };
	});
	return { name, incarnation: incarnation as number, regions };
}

function isCount(value: unknown): value is number {
	return Number.isSafeInteger(value) && (value as number) >= 1;
}
