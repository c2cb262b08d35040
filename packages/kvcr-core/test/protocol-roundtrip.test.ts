/** What goes in comes out: every message, every field, integers to all 64 bits. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	decodeControlMessage,
	decodeNotification,
	encodeControlMessage,
	encodeWriteDone,
} from "../src/protocol/index.js";
import { controlMessage, opHandle } from "./protocol-arbitraries.js";

describe("a control message", () => {
	it("decodes to what was encoded", () => {
		fc.assert(
			fc.property(controlMessage, (message) => {
				expect(decodeControlMessage(encodeControlMessage(message))).toEqual(
					message,
				);
			}),
			{ numRuns: 2_000 },
		);
	});

	it("encodes to the same bytes after a decode", () => {
		fc.assert(
			fc.property(controlMessage, (message) => {
				const bytes = encodeControlMessage(message);
				const again = decodeControlMessage(bytes);
				expect(again).toBeDefined();
				if (again !== undefined)
					expect(encodeControlMessage(again)).toEqual(bytes);
			}),
			{ numRuns: 500 },
		);
	});

	it("does not keep the received bytes alive through keys and metadata that outlive it", () => {
		fc.assert(
			fc.property(controlMessage, fc.boolean(), (message, asBuffer) => {
				// Some channels hand over a Buffer, whose `slice` is a view where that of other bytes is a copy.
				const encoded = encodeControlMessage(message);
				const bytes = asBuffer ? Buffer.from(encoded) : encoded;
				const decoded = decodeControlMessage(bytes);
				bytes.fill(0xc1);
				if (decoded?.type === "hashes_resolved")
					expect(decoded).toEqual(message);
				if (decoded !== undefined && "peer" in decoded && "peer" in message)
					expect(decoded.peer).toEqual(message.peer);
			}),
			{ numRuns: 300 },
		);
	});

	it("has every integer as an integer, never as a double", () => {
		const doubles = (bytes: Uint8Array) => {
			let found = 0;
			const count = (value: unknown): void => {
				if (typeof value === "number") found++;
				else if (Array.isArray(value)) value.forEach(count);
				else if (
					typeof value === "object" &&
					value !== null &&
					!(value instanceof Uint8Array)
				)
					for (const [field, entry] of Object.entries(value))
						if (field !== "remaining_timeout_ms") count(entry);
			};
			// Read by a parser that tells the two apart.
			count(unpackTyped(bytes));
			return found;
		};
		fc.assert(
			fc.property(controlMessage, (message) => {
				expect(doubles(encodeControlMessage(message))).toBe(0);
			}),
			{ numRuns: 1_000 },
		);
	});

	it("has its integers in the shortest form", () => {
		const header = {
			targetAgent: "a",
			senderIncarnation: "0".repeat(32),
			senderControlEndpoint: "e",
		};
		const lengthOf = (handle: bigint) =>
			encodeControlMessage({
				type: "write_refused",
				header,
				opHandle: handle,
			} as never).byteLength;
		const shortest = lengthOf(0n);
		expect(lengthOf(127n) - shortest).toBe(0);
		expect(lengthOf(-32n) - shortest).toBe(0);
		expect(lengthOf(255n) - shortest).toBe(1);
		expect(lengthOf(-33n) - shortest).toBe(1);
		expect(lengthOf(65_535n) - shortest).toBe(2);
		expect(lengthOf(0xffff_ffffn) - shortest).toBe(4);
		expect(lengthOf(0x1_0000_0000n) - shortest).toBe(8);
		expect(lengthOf(0x7fff_ffff_ffff_ffffn) - shortest).toBe(8);
		expect(lengthOf(-0x8000_0000_0000_0000n) - shortest).toBe(8);
	});
});

describe("a write_done notification", () => {
	it("decodes to what was encoded", () => {
		fc.assert(
			fc.property(
				fc.record({
					opHandle,
					success: fc.boolean(),
					completedIndices: fc.uniqueArray(fc.nat(20_000), { maxLength: 50 }),
					terminal: fc.boolean(),
				}),
				(done) => {
					expect(decodeNotification(encodeWriteDone(done))).toEqual({
						...done,
						completedIndices: done.success ? done.completedIndices : [],
					});
				},
			),
			{ numRuns: 1_000 },
		);
	});
});

/** Decodes with integers as bigint and doubles as number, as the wire has them. */
function unpackTyped(bytes: Uint8Array): unknown {
	const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	let at = 0;
	const take = (size: number) => {
		at += size;
		return at - size;
	};
	const bin = (size: number) => bytes.subarray(at, take(size) + size);
	const text = (size: number) => Buffer.from(bin(size)).toString();
	const list = (size: number) => Array.from({ length: size }, () => value());
	const map = (size: number) =>
		Object.fromEntries(Array.from({ length: size }, () => [value(), value()]));
	const value = (): unknown => {
		const head = view.getUint8(take(1));
		if (head < 0x80) return BigInt(head);
		if (head < 0x90) return map(head & 15);
		if (head < 0xa0) return list(head & 15);
		if (head < 0xc0) return text(head & 31);
		if (head >= 0xe0) return BigInt(head - 256);
		const readers: Record<number, () => unknown> = {
			192: () => null,
			194: () => false,
			195: () => true,
			196: () => bin(view.getUint8(take(1))),
			197: () => bin(view.getUint16(take(2))),
			198: () => bin(view.getUint32(take(4))),
			202: () => view.getFloat32(take(4)),
			203: () => view.getFloat64(take(8)),
			204: () => BigInt(view.getUint8(take(1))),
			205: () => BigInt(view.getUint16(take(2))),
			206: () => BigInt(view.getUint32(take(4))),
			207: () => view.getBigUint64(take(8)),
			208: () => BigInt(view.getInt8(take(1))),
			209: () => BigInt(view.getInt16(take(2))),
			210: () => BigInt(view.getInt32(take(4))),
			211: () => view.getBigInt64(take(8)),
			217: () => text(view.getUint8(take(1))),
			218: () => text(view.getUint16(take(2))),
			219: () => text(view.getUint32(take(4))),
			220: () => list(view.getUint16(take(2))),
			221: () => list(view.getUint32(take(4))),
			222: () => map(view.getUint16(take(2))),
			223: () => map(view.getUint32(take(4))),
		};
		const read = readers[head];
		if (read === undefined) throw new Error(`unexpected byte ${head}`);
		return read();
	};
	return value();
}
