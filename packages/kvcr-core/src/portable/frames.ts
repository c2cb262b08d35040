/**
 * Frames of the portable agent's connection. A writer dials the agent it writes to. Every frame starts with 16 bytes,
 * little-endian: type (1), status (1), zero (2), `length` (4), `number` (6), zero (2).
 *
 * | frame | direction | `length` bytes that follow | `number` |
 * | --- | --- | --- | --- |
 * | hello | writer → target | token, 16-byte link ID, agent name | magic |
 * | welcome | target → writer | sequence numbers (6 bytes each) that were refused | last sequence number processed |
 * | write | writer → target | notification length (4), runs of 28 bytes, notification | sequence number |
 * | data | writer → target | next bytes of the write at hand | 0 |
 * | abort | writer → target | none: the write at hand ends here | sequence number |
 * | notify | writer → target | payload | 0 |
 * | ack | target → writer | reason, when refused | sequence number |
 *
 * A writer that lost its connection dials again with the same link ID. The target ends the former connection before it
 * answers, so the welcome proves that no byte of an older write is still on its way, and tells how far those came.
 */

/** Bytes of the fixed part of a frame. */
export const HEADER_BYTES = 16;

/** Frame types. */
export const FrameType = {
	hello: 1,
	welcome: 2,
	write: 3,
	data: 4,
	abort: 5,
	notify: 6,
	ack: 7,
} as const;

/** Status of a welcome: accepted, or why not. */
export const WelcomeStatus = { ok: 0, unknownToken: 1, busy: 2 } as const;

/** Status of an ack. */
export const AckStatus = { done: 0, refused: 1, aborted: 2 } as const;

/** `number` of a hello frame. */
export const HELLO_MAGIC = 0x31_50_52_43_56_4b;

/** Bytes of a link ID. */
export const LINK_ID_BYTES = 16;

/** Bytes of one run in a write frame: address (8), first element (6), zero (2), count (6), zero (2), reserved (4). */
export const RUN_BYTES = 28;

/** Longest reason of an ack, in bytes. */
export const MAX_REASON_BYTES = 256;

/** Refused sequence numbers that a target remembers per link. */
export const MAX_REMEMBERED_REFUSALS = 1024;

/** Most payload bytes in one data frame. */
export const MAX_DATA_BYTES = 1 << 20;

/** The fixed part of a frame. */
export interface FrameHeader {
	readonly type: number;
	readonly status: number;
	readonly length: number;
	readonly number: number;
}

/** Bytes that do not follow the protocol: the connection they came over has to end. */
export class FrameError extends Error {}

/** Writes the fixed part of a frame at an offset. */
export function putHeader(
	into: Buffer,
	at: number,
	type: number,
	length: number,
	number = 0,
	status = 0,
): void {
	into[at] = type;
	into[at + 1] = status;
	into.writeUInt16LE(0, at + 2);
	into.writeUInt32LE(length, at + 4);
	into.writeUIntLE(number, at + 8, 6);
	into.writeUInt16LE(0, at + 14);
}

/** Reads the fixed part of a frame. */
export function getHeader(from: Buffer, at: number): FrameHeader {
	return {
		type: from[at] as number,
		status: from[at + 1] as number,
		length: from.readUInt32LE(at + 4),
		number: from.readUIntLE(at + 8, 6),
	};
}

/** One frame with its body, as one buffer. */
export function frame(
	type: number,
	body: Uint8Array,
	number = 0,
	status = 0,
): Buffer {
	const bytes = Buffer.allocUnsafe(HEADER_BYTES + body.byteLength);
	putHeader(bytes, 0, type, body.byteLength, number, status);
	bytes.set(body, HEADER_BYTES);
	return bytes;
}

/** What a {@link FrameReader} hands its frames to. */
export interface FrameSink {
	/**
	 * A header arrived. `"body"`: collect its bytes and call `frame`. `"stream"`: hand its bytes to `stream` as they come.
	 * @throws FrameError
	 */
	header(header: FrameHeader): "body" | "stream";
	/** A frame with its whole body. The bytes are only good during the call. @throws FrameError */
	frame(header: FrameHeader, body: Buffer): void;
	/** A part of a streamed frame. */
	stream(bytes: Buffer): void;
}

/** Cuts a byte stream into frames. */
export class FrameReader {
	readonly #sink: FrameSink;
	readonly #head = Buffer.alloc(HEADER_BYTES);
	#headFill = 0;
	#header: FrameHeader | undefined;
	#body: Buffer | undefined;
	#bodyFill = 0;
	#streamLeft = 0;

	constructor(sink: FrameSink) {
		this.#sink = sink;
	}

	/** Bytes of a streamed frame that are still to come. */
	get streamLeft(): number {
		return this.#streamLeft;
	}

	/** Notes that bytes of a streamed frame were taken from the connection without passing through `feed`. */
	skip(bytes: number): void {
		this.#streamLeft -= bytes;
	}

	/** Takes the next bytes of the stream. @throws FrameError */
	feed(bytes: Buffer): void {
		let at = 0;
		while (at < bytes.length) {
			if (this.#streamLeft > 0) {
				const end = Math.min(bytes.length, at + this.#streamLeft);
				this.#streamLeft -= end - at;
				this.#sink.stream(bytes.subarray(at, end));
				at = end;
			} else if (this.#body !== undefined) at = this.#feedBody(bytes, at);
			else at = this.#feedHead(bytes, at);
		}
	}

	#feedHead(bytes: Buffer, at: number): number {
		const end = Math.min(bytes.length, at + HEADER_BYTES - this.#headFill);
		let header: FrameHeader;
		if (this.#headFill === 0 && end - at === HEADER_BYTES)
			header = getHeader(bytes, at);
		else {
			bytes.copy(this.#head, this.#headFill, at, end);
			this.#headFill += end - at;
			if (this.#headFill < HEADER_BYTES) return end;
			this.#headFill = 0;
			header = getHeader(this.#head, 0);
		}
		if (this.#sink.header(header) === "stream") {
			this.#streamLeft = header.length;
			return end;
		}
		// The usual case: the body is there as well and needs no copy.
		if (bytes.length - end >= header.length) {
			this.#sink.frame(header, bytes.subarray(end, end + header.length));
			return end + header.length;
		}
		this.#header = header;
		this.#body = Buffer.allocUnsafe(header.length);
		this.#bodyFill = 0;
		return end;
	}

	#feedBody(bytes: Buffer, at: number): number {
		const body = this.#body as Buffer;
		const end = Math.min(bytes.length, at + body.length - this.#bodyFill);
		bytes.copy(body, this.#bodyFill, at, end);
		this.#bodyFill += end - at;
		if (this.#bodyFill === body.length) {
			this.#body = undefined;
			this.#sink.frame(this.#header as FrameHeader, body);
		}
		return end;
	}
}
