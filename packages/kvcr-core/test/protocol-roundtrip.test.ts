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
