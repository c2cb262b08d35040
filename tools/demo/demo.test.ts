import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "kvcr-demo-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;

function hintFile(
	hashes: readonly string[][],
	scope = "independent",
	source = "$SOURCE",
): string {
	const actions = hashes.map(
		(list) =>
			`{"action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"${source}","scope":"${scope}","block_hashes":[${list}]}}`,
	);
	return write(`{"protocol_version":"0.1","actions":[${actions}]}`);
}

function write(text: string | Buffer): string {
	files += 1;
	const path = join(folder, `${files}.json`);
	writeFileSync(path, text);
	return path;
}

function demo(...given: readonly (string | NodeJS.ProcessEnv)[]) {
	const args = given.filter((entry) => typeof entry === "string");
	const env = given.find((entry) => typeof entry !== "string");
	return new Promise<{ code: number; out: string; err: string }>((resolve) => {
		execFile(
			process.execPath,
			["--conditions=kvcr-source", "--import", "tsx", MAIN, ...args],
			{ timeout: 60_000, env: { ...process.env, ...env } },
			(error, out, err) =>
				resolve({ code: error === null ? 0 : Number(error.code), out, err }),
		);
	});
}

describe("the demo", () => {
	it("places what its hint names and compares every byte", async () => {
		const { code, out } = await demo("--agent", "portable");
		expect(code).toBe(0);
		expect(out).toMatch(/13835058055282163713 +placed +65536 /);
		expect(out).toMatch(/9007199254740993 +placed +135168 /);
		expect(out).toMatch(/7777 +ambiguous_hash/);
		expect(out).toMatch(/31337 +not_found/);
		expect(out).toContain("every byte is right, nothing is left over");
	}, 60_000);

	it("follows every action of a hint, also where two name one block", async () => {
		const hint = hintFile([["42", "99"], ["42"]]);
		const { code, out } = await demo("--agent", "portable", "--hint", hint);
		expect(out.match(/^42 /gm)).toHaveLength(2);
		expect(out).toContain("delivered 1 placed blocks");
		expect(code).toBe(0);
	}, 60_000);

	it("fails, and says why, when the source cannot be reached", async () => {
		const hint = hintFile([["42"]], "independent", "tcp://127.0.0.1:1");
		const { code, err } = await demo("--agent", "portable", "--hint", hint);
		expect(code).toBe(1);
		expect(err).toContain("hash 42: timeout instead of placed");
	}, 60_000);

	it.each([
		["a file that is not there", () => ["--hint", join(folder, "none.json")]],
		["a folder", () => ["--hint", folder]],
		["text that is no JSON", () => ["--hint", write('{"actions":')]],
		[
			"text that is not UTF-8",
			() => [
				"--hint",
				write(
					Buffer.from(
						'{"protocol_version":"0.1","message_id":"\xe9"}',
						"latin1",
					),
				),
			],
		],
		["a list without hashes", () => ["--hint", hintFile([[]])]],
		[
			"a hint that waits for a request",
			() => ["--hint", hintFile([["42"]], "request")],
		],
		["an agent nobody knows", () => ["--agent", "carrier-pigeon"]],
		["an option nobody knows", () => ["--fast"]],
	])(
		"answers %s in a few words, with exit code 2",
		async (_what, args) => {
			const { code, out, err } = await demo(...args());
			expect(code).toBe(2);
			expect(out).toBe("");
			expect(err).toMatch(/^demo: /);
			expect(err).not.toMatch(/^\s+at /m);
		},
		60_000,
	);

	it("says in a few words that the agent asked for is not to be had", async () => {
		const library = write("no library");
		const { code, err } = await demo(
			...["--agent", "nixl"],
			...[{ KVCR_NIXL_LIBRARY: library }],
		);
		expect(code).toBe(2);
		expect(err).toMatch(/^demo: there is no NIXL here: /);
		expect(err).not.toMatch(/^\s+at /m);
	}, 60_000);

	it("explains itself", async () => {
		const { code, out } = await demo("--help");
		expect(code).toBe(0);
		expect(out).toContain("--hint FILE");
	}, 60_000);
});
