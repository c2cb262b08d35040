/**
 * A look at a peer's metadata before NIXL sees it. NIXL hands parts of the blob to UCX, which trusts them; what is
 * truncated, padded or not metadata at all must therefore be refused here. The blob is a chain of records
 * `tag, 8-byte little-endian length, value, "|"` behind a header.
 */
import { types } from "node:util";
import { InvalidMetadataError } from "kvcr-core";
import type { MemoryRange } from "./coverage.js";
import { keyFault } from "./memory-key.js";
import { lacksAddress, type Transport, transportsIn } from "./ucx-address.js";
import { ucxSettings } from "./ucx-settings.js";

/** Largest blob accepted, in bytes. A region takes about 64 of them. */
export const MAX_METADATA_BYTES = 16 << 20;

/** Longest agent name, in bytes. */
export const MAX_NAME_BYTES = 255;

const HEADER = "nixlSerDes|";
const LIST_HEADER = "nixlSDList|";
const MAX_BACKENDS = 64;

/** NIXL's number for host memory, and the largest it has for a kind of memory. */
const HOST_MEMORY = 0;
const LAST_MEMORY_TYPE = 4;

/** The one backend that agents here have. */
const BACKEND = "UCX";

/** Address, length and device, then a key of at least its own header. */
const KEY = 24;
const LEAST_DESCRIPTOR_BYTES = KEY + 9;

/** Where UCX's key says what kind of memory it is for, and the largest number for one; 0 is host memory. */
const KEY_MEMORY_TYPE = KEY + 8;
const LAST_KEY_MEMORY_TYPE = 8;

/** A worker address of UCX is shorter than this even with dozens of devices, and longer than nothing. */
const CONNECTION_BYTES = { least: 16, most: 1 << 20 };

/** What a metadata blob says, as far as it matters here. */
export interface Metadata {
	readonly name: string;
	/** The ways to reach the agent. */
	readonly transports: readonly Transport[];
	/** Host memory that the agent can be written to at, as UCX knows it. */
	readonly memory: readonly MemoryRange[];
	/** Where the part about memory begins. */
	readonly memoryAt: number;
}

/**
 * A copy of what may be a metadata blob: bytes of the caller, or of another thread, may change between check and use.
 * @throws InvalidMetadataError when it is not bytes, or more than {@link MAX_METADATA_BYTES}.
 */
export function ownMetadata(operation: string, metadata: unknown): Buffer {
	const refuse = (reason: string) =>
		new InvalidMetadataError(operation, metadata, reason);
	// By its insides: a prototype can be given to anything.
	if (!types.isUint8Array(metadata)) throw refuse("it is not bytes");
	const { byteLength } = metadata;
	if (byteLength > MAX_METADATA_BYTES)
		throw refuse(`it has ${byteLength} bytes, more than ${MAX_METADATA_BYTES}`);
	return Buffer.from(new Uint8Array(metadata).buffer);
}

/**
 * Takes a metadata blob apart.
 * @param own the transports of the agent that is about to load it, where they are known
 * @throws InvalidMetadataError when the bytes are not a whole metadata blob.
 */
export function readMetadata(
	operation: string,
	metadata: Uint8Array,
	own: readonly Transport[] = [],
): Metadata {
	const refuse = (reason: string): never => {
		throw new InvalidMetadataError(operation, metadata, reason);
	};
	const reader = new RecordReader(metadata, refuse);
	reader.literal(HEADER);
	const name = decodeName(reader.record("Agent"));
	if (name === undefined)
		return refuse(
			`it names no agent (1 to ${MAX_NAME_BYTES} bytes of text without NUL)`,
		);
	const backends = reader.count("Conns");
	if (backends > MAX_BACKENDS) return refuse(`it lists ${backends} backends`);
	const transports: Transport[] = [];
	const unified = ucxSettings().UCX_UNIFIED_MODE !== undefined;
	for (let i = 0; i < backends; i += 1) {
		reader.record("t");
		const address = reader.record("c");
		const { byteLength } = address;
		if (
			byteLength < CONNECTION_BYTES.least ||
			byteLength > CONNECTION_BYTES.most
		)
			return refuse(`a connection address has ${byteLength} bytes`);
		// In its unified mode UCX packs something else in the place of a transport's attributes.
		if (unified) continue;
		const found = transportsIn(address);
		if (typeof found === "string")
			return refuse(`a connection address ${found}`);
		if (lacksAddress(found, own))
			return refuse("a connection address leaves a transport's out");
		transports.push(...found);
	}
	if (text(reader.record("")) !== "MemSection")
		return refuse("it has no memory section");
	const memoryAt = reader.at;
	const memory: MemoryRange[] = [];
	const sections = reader.count("nixlSecElms");
	if (sections > 2 * MAX_BACKENDS)
		return refuse(`it lists ${sections} sections`);
	for (let i = 0; i < sections; i += 1) {
		const backend = text(reader.record("bknd"));
		if (`${text(reader.record("nixlDList"))}|` !== LIST_HEADER)
			return refuse("a section is not a descriptor list");
		const typeWord = reader.record("t");
		const type = typeWord.byteLength === 4 ? word(typeWord) : -1;
		// NIXL uses this number as an index.
		if (type < 0 || type > LAST_MEMORY_TYPE)
			return refuse("a section is of an unknown memory type");
		const descriptors = reader.count("n");
		for (let d = 0; d < descriptors; d += 1) {
			const descriptor = reader.record("");
			if (descriptor.byteLength < LEAST_DESCRIPTOR_BYTES)
				return refuse("a descriptor is cut short");
			// UCX uses its own number for the kind of memory as an index, too.
			const kind = descriptor[KEY_MEMORY_TYPE] as number;
			if (kind > (type === HOST_MEMORY ? 0 : LAST_KEY_MEMORY_TYPE))
				return refuse("a memory key is of another memory type");
			if (backend !== BACKEND) continue;
			const fault = keyFault(descriptor.subarray(KEY), transports);
			if (fault !== undefined) return refuse(`a memory key ${fault}`);
			const range = rangeOf(descriptor);
			if (type === HOST_MEMORY && range !== undefined) memory.push(range);
		}
	}
	if (!reader.atEnd) return refuse("it goes on after its end");
	return { name, transports, memory, memoryAt };
}

/**
 * The same blob under another agent name. The name is only the local engine's key for the peer: what the peer sends
 * carries its own.
 * @param name the name that `readMetadata` found
 */
export function underName(
	metadata: Uint8Array,
	name: string,
	alias: string,
): Uint8Array {
	const prefix = Buffer.from(`${HEADER}Agent`, "latin1");
	const rest = prefix.length + 8 + Buffer.byteLength(name);
	const length = Buffer.alloc(8);
	length.writeBigUInt64LE(BigInt(Buffer.byteLength(alias)));
	return Buffer.concat([
		prefix,
		length,
		Buffer.from(alias),
		metadata.subarray(rest),
	]);
}

/** The same blob without memory: what it takes to connect. */
export function withoutMemory(
	metadata: Uint8Array,
	{ memoryAt }: Pick<Metadata, "memoryAt">,
): Uint8Array {
	const count = Buffer.alloc(16);
	count.writeBigUInt64LE(8n);
	return Buffer.concat([
		metadata.subarray(0, memoryAt),
		Buffer.from("nixlSecElms"),
		count,
		Buffer.from("|"),
	]);
}

/** True for a name that survives NIXL's C interface: non-empty, bounded, no NUL, and no half of a surrogate pair. */
export function isAgentName(value: unknown): value is string {
	return (
		typeof value === "string" &&
		value.length > 0 &&
		!value.includes("\0") &&
		!/\p{Surrogate}/u.test(value) &&
		Buffer.byteLength(value) <= MAX_NAME_BYTES
	);
}

function decodeName(bytes: Uint8Array): string | undefined {
	try {
		const name = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
		return isAgentName(name) ? name : undefined;
	} catch {
		return undefined;
	}
}

function word(bytes: Uint8Array): number {
	return Buffer.from(bytes.buffer, bytes.byteOffset, 4).readUInt32LE();
}

/** What a descriptor is about, if it is on device 0, as all host memory is that agents here tell of. */
function rangeOf(descriptor: Uint8Array): MemoryRange | undefined {
	const view = new DataView(descriptor.buffer, descriptor.byteOffset, 24);
	if (view.getBigUint64(16, true) !== 0n) return undefined;
	const start = view.getBigUint64(0, true);
	return { start, end: start + view.getBigUint64(8, true) };
}

function text(bytes: Uint8Array): string {
	return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(
		"latin1",
	);
}

/** Walks the chain; every step is checked against the end of the bytes. */
class RecordReader {
	readonly #bytes: Buffer;
	readonly #refuse: (reason: string) => never;
	#at = 0;

	constructor(bytes: Uint8Array, refuse: (reason: string) => never) {
		this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
		this.#refuse = refuse;
	}

	get at(): number {
		return this.#at;
	}

	get atEnd(): boolean {
		return this.#at === this.#bytes.length;
	}

	literal(expected: string): void {
		const end = this.#at + expected.length;
		if (
			end > this.#bytes.length ||
			this.#bytes.toString("latin1", this.#at, end) !== expected
		)
			this.#refuse(
				`${JSON.stringify(expected)} was expected at byte ${this.#at}`,
			);
		this.#at = end;
	}

	record(tag: string): Uint8Array {
		this.literal(tag);
		const start = this.#at + 8;
		if (start > this.#bytes.length)
			return this.#refuse(`it ends inside record ${JSON.stringify(tag)}`);
		const length = this.#bytes.readBigUInt64LE(this.#at);
		if (length > BigInt(this.#bytes.length - start - 1))
			return this.#refuse(
				`record ${JSON.stringify(tag)} is longer than the rest`,
			);
		const end = start + Number(length);
		this.#at = end;
		this.literal("|");
		return this.#bytes.subarray(start, end);
	}

	/** A record that holds an 8-byte number, which never exceeds what the rest could describe. */
	count(tag: string): number {
		const value = this.record(tag);
		if (value.byteLength !== 8)
			return this.#refuse(`record ${JSON.stringify(tag)} is not a number`);
		const count = Buffer.from(
			value.buffer,
			value.byteOffset,
			8,
		).readBigUInt64LE();
		if (count > BigInt(this.#bytes.length))
			return this.#refuse(
				`record ${JSON.stringify(tag)} counts more than there is`,
			);
		return Number(count);
	}
}
