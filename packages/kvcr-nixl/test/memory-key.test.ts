import { describe, expect, it } from "vitest";
import { keyFault } from "../src/memory-key.js";
import { readMetadata } from "../src/metadata.js";
import { createAgent, missingNixl } from "./helpers.js";

const transport = (checksum: number, domain: number) => ({
	checksum,
	domain,
	deviceBytes: 8,
	interfaceBytes: 8,
});
const [TCP, SYSV, POSIX] = [
	transport(0x19cf, 0),
	transport(0x538d, 1),
	transport(0xd3a7, 5),
];

/** A key over these domains, with a part of each. */
function key(parts: Record<number, number[]>, rest: number[] = []): Buffer {
	const domains = Object.keys(parts).map(BigInt);
	const header = Buffer.alloc(9);
	header.writeBigUInt64LE(domains.reduce((all, one) => all | (1n << one), 0n));
	const bodies = Object.values(parts).flatMap((part) => [part.length, ...part]);
	return Buffer.concat([header, Buffer.from([...bodies, ...rest])]);
}

describe("a memory key", () => {
	it.each([
		["of one domain", key({ 0: [] }, [0xff])],
		["of none", key({})],
		["of many, with parts", key({ 0: [], 3: [1, 2, 3], 63: [4] })],
	])("%s is accepted", (_what, whole) => {
		expect(keyFault(whole, [TCP, SYSV, POSIX])).toBeUndefined();
	});

	it("is refused when it ends at any byte of its parts", () => {
		const whole = key({ 0: [], 3: [1, 2, 3], 63: [4] });
		for (let length = 9; length < whole.length; length += 1)
			expect(keyFault(whole.subarray(0, length), [TCP])).toBe(
				"reaches past its end",
			);
	});

	it("is refused when it is of memory that NIXL never registers", () => {
		for (const domain of [1, 5]) {
			const whole = key({ [domain]: new Array(40).fill(1) });
			expect(keyFault(whole, [TCP, SYSV, POSIX])).toContain("allocates");
			expect(keyFault(whole, [TCP])).toBeUndefined();
		}
	});

	it.skipIf(missingNixl !== undefined)(
		"of a peer that claims other domains is refused",
		async () => {
			const agent = await createAgent();
			const blob = Buffer.from(agent.localMetadata());
			await agent.close();
			expect(() => readMetadata("test", blob)).not.toThrow();
			const list = blob.indexOf("nixlSDList|");
			// Behind the list's header, its two counts, and the length, address, size and device of the descriptor.
			const at = list + 11 + (1 + 8 + 4 + 1) + (1 + 8 + 8 + 1) + 8 + 24;
			expect(blob.readBigUInt64LE(at)).toBe(1n);
			for (let bit = 1; bit < 64; bit += 1)
				for (const domains of [1n << BigInt(bit), 1n | (1n << BigInt(bit))]) {
					blob.writeBigUInt64LE(domains, at);
					const { transports } = refusedOr(blob);
					const reads = transports.some(
						({ checksum, domain }) =>
							domain === bit && [0x538d, 0xd3a7].includes(checksum),
					);
					expect(reads).toBe(false);
				}
		},
	);
});

/** What the metadata says, or nothing when it is refused. */
function refusedOr(blob: Uint8Array) {
	try {
		return readMetadata("test", blob);
	} catch (error) {
		expect(error).toMatchObject({ code: "ERR_KVCR_INVALID_METADATA" });
		return { transports: [] };
	}
}
