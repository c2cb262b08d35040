/** No name can carry a wildcard, a separator, white space or a line break to the server. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NatsControlChannel } from "../src/index.js";
import { isPeerName, SubjectSpace } from "../src/subjects.js";

const HOSTILE = [
	"",
	"*",
	">",
	"a*",
	"a.b",
	"a.",
	".a",
	"a b",
	" a",
	"a\t",
	"a\n",
	"a\r\nPUB x 0\r\n\r\n",
	"a\u0000",
	"a\u00a0",
	"_presence",
	"_INBOX",
	"$SYS",
	"a$",
	"é",
	"а", // Cyrillic
	"a/b",
	"a".repeat(65),
];

describe("peer names and prefixes", () => {
	it.each(HOSTILE)("refuses the peer name %j", (peer) => {
		expect(() => new NatsControlChannel({ peer })).toThrow(
			expect.objectContaining({
				code: "ERR_KVCR_INVALID_ENDPOINT",
				message: expect.stringContaining("NatsControlChannel"),
			}),
		);
	});

	it.each([
		...HOSTILE.filter((name) => name !== "a.b"),
		"a..b",
		"kvcr.*",
		"kvcr.>",
		"$SYS.REQ",
		"_INBOX.x",
		Array(9).fill("a").join("."),
	])("refuses the prefix %j", (prefix) => {
		expect(() => new NatsControlChannel({ prefix })).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_INVALID_ENDPOINT" }),
		);
	});

	it("accepts ordinary names", () => {
		const channel = new NatsControlChannel({
			peer: "worker-1_A",
			prefix: "prod.eu-1.kvcr",
		});
		expect(channel.hintSubject).toBe("prod.eu-1.kvcr.worker-1_A.hints");
	});

	it("names itself at random when no name is given", () => {
		const names = Array.from(
			{ length: 50 },
			() => new NatsControlChannel().peer,
		);
		expect(new Set(names).size).toBe(50);
		expect(names.every(isPeerName)).toBe(true);
	});

	it("turns any text into one plain token below the prefix, or into nothing", () => {
		const space = new SubjectSpace("kvcr", "test");
		const text = fc.oneof(
			fc.string({ unit: "binary" }),
			fc.string({
				unit: fc.constantFrom(
					"a",
					".",
					"*",
					">",
					" ",
					"\r",
					"\n",
					"_",
					"$",
					"-",
				),
			}),
		);
		fc.assert(
			fc.property(text, (name) => {
				const subject = space.subjectOf(`nats://kvcr.${name}`);
				if (subject === undefined) {
					expect(isPeerName(name)).toBe(false);
					return;
				}
				expect(subject).toMatch(/^kvcr\.[A-Za-z0-9-][A-Za-z0-9_-]*$/);
				expect(subject).toBe(`kvcr.${name}`);
			}),
			{ numRuns: 2_000 },
		);
	});

	it("never resolves an endpoint outside its own prefix", () => {
		const space = new SubjectSpace("prod.kvcr", "test");
		fc.assert(
			fc.property(fc.string({ unit: "binary" }), (endpoint) => {
				const subject = space.subjectOf(endpoint);
				expect(subject === undefined || subject.startsWith("prod.kvcr.")).toBe(
					true,
				);
			}),
		);
		for (const endpoint of [
			"nats://prod.kvcr2.a",
			"nats://prodXkvcr.a",
			"nats://prod.a",
			"nats://kvcr.a",
			"NATS://prod.kvcr.a",
			"nats://prod.kvcr._presence",
			"nats://prod.kvcr.a.hints",
		])
			expect(space.subjectOf(endpoint)).toBeUndefined();
	});
});
