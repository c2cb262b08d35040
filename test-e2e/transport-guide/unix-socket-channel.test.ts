/** The example of the transport guide fulfils the contract of a control channel. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { controlChannelSuite } from "kvcr-core/testing";
import { afterAll, describe, expect, it } from "vitest";
import { UnixSocketChannel } from "./unix-socket-channel.js";

const folder = mkdtempSync(join(tmpdir(), "kvcr-unix-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let made = 0;
const fresh = () => `unix://${folder}/${made++}.sock`;

controlChannelSuite(
	{ describe, it },
	{
		name: "Unix sockets (the guide's example)",
		create: (endpoint) => new UnixSocketChannel(endpoint ?? fresh()),
		absentEndpoint: fresh,
		createAddressless: () => new UnixSocketChannel(),
		createWildcard: () => new UnixSocketChannel("unix://"),
		foreignEndpoints: [
			"",
			"nonsense",
			"tcp://127.0.0.1:1",
			"unix://relative.sock",
			"unix:///a/../b",
			"unix:///a\u0000b",
			`unix:///${"a".repeat(200)}`,
		],
	},
);

describe("the guide's example", () => {
	it("cuts a sender whose length cannot be believed, and goes on with others", async () => {
		const channel = new UnixSocketChannel(fresh());
		const got: Uint8Array[] = [];
		await channel.start((message) => got.push(message));
		const hostile = connect((channel.endpoint ?? "").slice("unix://".length));
		const cut = new Promise((resolve) => hostile.on("close", resolve));
		hostile.on("error", () => {});
		hostile.write(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 1, 2, 3));
		await cut;
		expect(channel.stats().dropped).toEqual({ too_large: 1 });
		channel.send(channel.endpoint ?? "", Uint8Array.of(7));
		await expect.poll(() => got.length).toBe(1);
		await channel.close();
	});

	it("does not take an address that somebody listens on", async () => {
		const endpoint = fresh();
		const first = new UnixSocketChannel(endpoint);
		await first.start(() => {});
		const second = new UnixSocketChannel(endpoint);
		await expect(second.start(() => {})).rejects.toThrow("EADDRINUSE");
		await second.close();
		await first.close();
	});

	it("is quoted by the guide as it is", () => {
		const guide = readFileSync(
			new URL("../../docs/transport-guide.md", import.meta.url),
			"utf8",
		);
		const source = readFileSync(
			new URL("./unix-socket-channel.ts", import.meta.url),
			"utf8",
		);
		const quotes = [
			...guide.matchAll(/```ts\n\/\/ from the example\n([\s\S]*?)```/g),
		];
		expect(quotes.length).toBeGreaterThanOrEqual(3);
		// The guide indents from the margin.
		const flat = (text: string): string => text.replace(/^\s+/gm, "");
		for (const [, quote] of quotes)
			expect(flat(source)).toContain(flat(quote ?? ""));
	});
});
