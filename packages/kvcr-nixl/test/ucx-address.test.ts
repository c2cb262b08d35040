import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lacksAddress, transportsIn } from "../src/ucx-address.js";

/** As UCX 1.23 packed it on a machine with two network interfaces and shared memory. */
const REAL = Buffer.from(
	"20b15b48acdbf2d3c10000637577cc2b320040975000000000004f03c088c5043aac826cb24e01060002c0000202cf1917b751389763344b" +
		"d7e037370013230082d8fd010e0102060ea7e9864fc8bef9ffffefcf1917b75138539e3e4bd7e037370113230082b3a30208060ea7e9864f" +
		"c83e8d5377cc2b320000705077ccab33004f23c08837004900000000000308060ea7e9864fc83ea7d377cc2b320000705077ccab33004f23" +
		"c088224200000b0000c00408060ea7e9864fc83e478bbd37063600242e5077ccab330092210084224200008780",
	"hex",
);

/** Format 2: a worker ID, a name, one device with a long address behind paths and system device, two interfaces. */
const SECOND = Buffer.concat([
	Buffer.from([0x31]),
	Buffer.alloc(8, 1),
	Buffer.from([3, 97, 98, 99]),
	// Memory domain 127 or more, then device: last, paths, system device, length 31 or more.
	Buffer.from([0x7f, 0x80, 0xff, 40, 2, 5]),
	Buffer.alloc(40, 7),
	Buffer.from([0x34, 0x12]),
	Buffer.alloc(8, 2),
	Buffer.from([0x3f, 70]),
	Buffer.alloc(70, 3),
	Buffer.from([0x78, 0x56]),
	Buffer.alloc(8, 2),
	Buffer.from([0x80]),
]);

describe("a worker address", () => {
	it("that is whole names its transports", () => {
		expect(transportsIn(REAL)).toEqual(
			[
				[0x7563, 0, 0, 8],
				[0x19cf, 1, 6, 2],
				[0x19cf, 1, 14, 2],
				[0x538d, 2, 8, 8],
				[0xd3a7, 3, 8, 8],
				[0x8b47, 4, 8, 4],
			].map(([checksum, domain, deviceBytes, interfaceBytes]) => ({
				checksum,
				domain,
				deviceBytes,
				interfaceBytes,
			})),
		);
		expect(transportsIn(SECOND)).toEqual([
			{ checksum: 0x1234, domain: 128, deviceBytes: 40, interfaceBytes: 70 },
			{ checksum: 0x5678, domain: 128, deviceBytes: 40, interfaceBytes: 0 },
		]);
	});

	it.each([
		["1", REAL],
		["2", SECOND],
	])(
		"of format %s is refused when it ends at any byte, or goes on",
		(_format, address) => {
			for (let length = 0; length < address.length; length += 1)
				expect(transportsIn(address.subarray(0, length))).toBeTypeOf("string");
			expect(transportsIn(Buffer.concat([address, Buffer.alloc(1)]))).toBe(
				"goes on behind its last part",
			);
		},
	);

	it.each([
		["an unknown format", 0, 0x22],
		["no worker ID", 0, 0x00],
		["no devices", 9, 0xff],
		["an endpoint's address", 29, 0xc8],
	])("with %s is refused", (_what, at, byte) => {
		const address = Buffer.from(REAL);
		address[at] = byte;
		expect(transportsIn(address)).toBeTypeOf("string");
	});

	it("of any bytes is refused or taken apart within its bounds", () => {
		fc.assert(
			fc.property(
				fc.uint8Array({ maxLength: 300 }),
				fc.constantFrom(0x20, 0x21, 0x31, 0x61),
				(bytes, header) => {
					const address = Uint8Array.of(header, ...bytes);
					const found = transportsIn(address);
					if (typeof found === "string") return;
					const total = found.reduce((sum, t) => sum + t.interfaceBytes, 0);
					expect(total).toBeLessThan(address.length);
				},
			),
			{ numRuns: 2000 },
		);
	});
});

describe("a peer", () => {
	const own = [
		{ checksum: 1, domain: 0, deviceBytes: 6, interfaceBytes: 2 },
		{ checksum: 1, domain: 0, deviceBytes: 14, interfaceBytes: 2 },
		{ checksum: 2, domain: 0, deviceBytes: 0, interfaceBytes: 8 },
	];
	it.each([
		["with the same transports", own, false],
		[
			"with addresses of other lengths",
			[{ checksum: 1, domain: 0, deviceBytes: 18, interfaceBytes: 4 }],
			false,
		],
		[
			"with nothing at all in a transport of its own",
			[{ checksum: 3, domain: 0, deviceBytes: 0, interfaceBytes: 0 }],
			false,
		],
		[
			"without a device's address",
			[{ checksum: 1, domain: 0, deviceBytes: 0, interfaceBytes: 2 }],
			true,
		],
		[
			"without an interface's address",
			[{ checksum: 1, domain: 0, deviceBytes: 6, interfaceBytes: 0 }],
			true,
		],
		[
			"without what nobody has",
			[{ checksum: 2, domain: 0, deviceBytes: 0, interfaceBytes: 8 }],
			false,
		],
	])("%s", (_what, peer, lacking) => {
		expect(lacksAddress(peer, own)).toBe(lacking);
	});
});
