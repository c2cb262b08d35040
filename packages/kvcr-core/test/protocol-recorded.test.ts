/**
 * Messages as the Python peer's encoder (msgspec) writes them, with its field order and integer widths: they decode, and
 * encode to the same bytes again.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
	decodeControlMessage,
	decodeNotification,
	encodeControlMessage,
	encodeWriteDone,
} from "../src/protocol/index.js";

const recorded = JSON.parse(
	readFileSync(new URL("fixtures/wire-msgspec.json", import.meta.url), "utf8"),
) as {
	messages: Record<string, string>;
	notifications: Record<string, string>;
};

describe("a recorded message", () => {
	it.each(Object.entries(recorded.messages))(
		"%s encodes to its own bytes again",
		(name, hex) => {
			const message = decodeControlMessage(Buffer.from(hex, "hex"));
			expect(message).toBeDefined();
			if (message === undefined) return;
			expect(name.startsWith(message.type)).toBe(true);
			expect(Buffer.from(encodeControlMessage(message)).toString("hex")).toBe(
				hex,
			);
		},
	);

	it("keeps handles and addresses to the last bit", () => {
		const decode = (name: string) =>
			decodeControlMessage(Buffer.from(recorded.messages[name] ?? "", "hex"));
		expect(decode("start_write")).toMatchObject({
			opHandle: 1234567890123456789n,
			remainingTimeoutMs: 987.6543,
		});
		expect(decode("start_write_of_a_fill")).toMatchObject({
			opHandle: -1099511627771n,
		});
		expect(decode("write_refused")).toMatchObject({
			opHandle: -(2n ** 63n),
		});
		const metadata = decode("target_metadata");
		expect(
			metadata?.type === "target_metadata" &&
				metadata.peer?.regions.managed.get("kv")?.addr,
		).toBe(2n ** 63n + 4096n);
	});
});

describe("a recorded notification", () => {
	it.each(Object.entries(recorded.notifications))(
		"%s encodes to its own bytes again",
		(_name, hex) => {
			const done = decodeNotification(Buffer.from(hex, "hex"));
			expect(done).toBeDefined();
			if (done === undefined) return;
			expect(Buffer.from(encodeWriteDone(done)).toString("hex")).toBe(hex);
		},
	);
});
