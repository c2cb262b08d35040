/** What peers of both kinds put on the wire, as recorded by `record.ts`: decoded, checked, and encoded again to the same bytes. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
	type ControlMessage,
	decodeControlMessage,
	decodeNotification,
	encodeControlMessage,
	encodeWriteDone,
} from "../../packages/kvcr-core/src/protocol/index.js";
import type { RecordedMessage, Recording } from "./recording.js";

const RECORDINGS = {
	"python-source": "a Python source and a TypeScript target",
	"typescript-source": "a TypeScript source and a Python target",
	"typescript-both": "two TypeScript peers",
} as const;

function read(name: string): Recording {
	const file = new URL(`./recordings/${name}.json`, import.meta.url);
	return JSON.parse(readFileSync(file, "utf8")) as Recording;
}

function bytesOf({ hex }: RecordedMessage): Uint8Array {
	return new Uint8Array(Buffer.from(hex, "hex"));
}

function decoded(message: RecordedMessage): ControlMessage {
	const one = decodeControlMessage(bytesOf(message));
	if (one === undefined) throw new Error("a type nobody knows");
	return one;
}

/** Types of the control messages one side sent, each once. */
function typesFrom(
	{ messages }: Recording,
	from: RecordedMessage["from"],
): string[] {
	const control = messages.filter((one) => one.via === "control");
	const types = control
		.filter((one) => one.from === from)
		.map((one) => decoded(one).type);
	return [...new Set(types)].sort();
}

describe.each(Object.entries(RECORDINGS))("%s: %s", (name) => {
	const recording = read(name);
	const control = recording.messages.filter(({ via }) => via === "control");
	const notifications = recording.messages.filter(
		({ via }) => via === "notification",
	);

	it("every control message decodes and encodes to the same bytes, but for what a Python source adds to a probe's answer", () => {
		expect(control.length).toBeGreaterThan(0);
		for (const message of control) {
			const one = decoded(message);
			const again = Buffer.from(encodeControlMessage(one));
			const was = Buffer.from(bytesOf(message));
			if (one.type === "write_probe_ack" && message.from === "python") {
				// It introduces itself with two more fields, of no use to a target: they are ignored, and not sent by ours.
				expect(was[0]).toBe((again[0] ?? 0) + 2);
				expect(was.subarray(1, again.byteLength)).toEqual(again.subarray(1));
				expect(was.subarray(again.byteLength + 1).toString("latin1")).toMatch(
					/^target_agent_metadata/,
				);
				continue;
			}
			expect(again.toString("hex")).toBe(message.hex);
		}
	});

	it("every notification decodes and encodes to the same bytes", () => {
		expect(notifications.length).toBeGreaterThan(0);
		for (const message of notifications) {
			const done = decodeNotification(bytesOf(message));
			expect(done).toBeDefined();
			if (done === undefined) continue;
			const { opHandle, success, completedIndices, terminal } = done;
			const again = encodeWriteDone({
				opHandle,
				success,
				...(success && { completedIndices }),
				...(!terminal && { terminal }),
			});
			expect(Buffer.from(again).toString("hex")).toBe(message.hex);
		}
	});

	it("every operation that was not refused has the end that its `start_write` can have", () => {
		for (const message of control) {
			const request = decoded(message);
			if (request.type !== "start_write") continue;
			const ends = notifications
				.map((one) => decodeNotification(bytesOf(one)))
				.filter((done) => done?.opHandle === request.opHandle);
			const refused = control
				.map(decoded)
				.some(
					(one) =>
						one.type === "write_refused" && one.opHandle === request.opHandle,
				);
			const probed = control
				.map(decoded)
				.some(
					(one) =>
						one.type === "write_probe_ack" && one.opHandle === request.opHandle,
				);
			expect(ends.length > 0 || refused || probed).toBe(true);
			for (const done of ends)
				for (const index of done?.completedIndices ?? [])
					expect(index).toBeLessThan(request.keys.length);
		}
	});
});

describe("between them the recordings hold", () => {
	it("every message that a Python peer sends, and every message that ours send", () => {
		const target = ["start_write", "target_metadata", "write_probe"];
		const source = ["target_metadata_ack", "write_probe_ack", "write_refused"];
		expect(typesFrom(read("python-source"), "python")).toEqual(source);
		expect(typesFrom(read("python-source"), "typescript")).toEqual(
			["resolve_hashes", ...target].sort(),
		);
		expect(typesFrom(read("typescript-source"), "python")).toEqual(target);
		expect(typesFrom(read("typescript-source"), "typescript")).toEqual(source);
		expect(typesFrom(read("typescript-both"), "typescript")).toEqual(
			expect.arrayContaining(["hashes_resolved", "resolve_hashes"]),
		);
	});

	it("handles and hashes beyond 53 bits, of both signs", () => {
		const messages = Object.keys(RECORDINGS)
			.flatMap((name) => read(name).messages)
			.filter(({ via }) => via === "control")
			.map(decoded);
		const handles = messages.flatMap((one) =>
			one.type === "start_write" ? [one.opHandle] : [],
		);
		const hashes = messages.flatMap((one) =>
			one.type === "resolve_hashes" ? one.hashes : [],
		);
		expect(handles.some((handle) => handle < -(2n ** 32n))).toBe(true);
		expect(handles.some((handle) => handle > 2n ** 32n)).toBe(true);
		expect(hashes.some((hash) => hash > 2n ** 63n)).toBe(true);
	});
});
