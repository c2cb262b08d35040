import { describe, expect, it } from "vitest";
import { reasonOf, showValue } from "../src/ports/index.js";

const throws = () => {
	throw new Error("never to be seen");
};

/** Values that refuse to be looked at, each in another way. */
const reluctant: [string, unknown][] = [
	["a symbol", Symbol("s")],
	["a bare object", Object.create(null)],
	["an object whose toJSON answers nothing", { toJSON: () => undefined }],
	["an object whose toJSON throws", { toJSON: throws }],
	["an object whose toString is no function", { toString: 5 }],
	["a function with an odd name", Object.defineProperty(() => {}, "name", {})],
	["a look-alike of bytes", Object.create(Uint8Array.prototype)],
	["a proxy of bytes", new Proxy(new Uint8Array(8), {})],
	["a proxy of a function", new Proxy(() => {}, { get: throws })],
	["a hostile proxy", new Proxy({}, { get: throws, getPrototypeOf: throws })],
	["an error without a text", Object.assign(new Error("x"), { message: {} })],
	[
		"an error that hides its text",
		Object.defineProperty(new Error("x"), "message", { get: throws }),
	],
];

describe("whatever a message has to show", () => {
	it.each(reluctant)("shows %s", (_what, value) => {
		for (const show of [showValue, reasonOf]) {
			const text = show(value);
			expect(text).toBeTypeOf("string");
			expect(text).not.toBe("");
			expect(text.length).toBeLessThanOrEqual(121);
		}
	});

	it("gives the reason of an error, a thrown text, and anything else", () => {
		expect(reasonOf(new TypeError("why"))).toBe("why");
		expect(reasonOf(new TypeError(""))).toBe("TypeError");
		expect(reasonOf("why")).toBe("why");
		expect(reasonOf("")).toBe('""');
		expect(reasonOf(undefined)).toBe("undefined");
		expect(reasonOf({ a: 1n })).toBe('{"a":"1n"}');
	});
});
