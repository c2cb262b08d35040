import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseHintEnvelope } from "kvcr-core";
import { VllmKeyAdapter } from "kvcr-vllm-adapter";
import { describe, expect, it } from "vitest";
import { composeEnvelope, NothingToComposeError } from "./compose.js";
import { readReports, type WorkerReport } from "./inventory.js";
import { readPlan } from "./plan.js";

const adapter = new VllmKeyAdapter({ events: false });
const HUGE = 13835058055282163713n;

/** Hexadecimal key of a block with this hash. */
function key(hash: bigint, groupIndex = 0): string {
	const blockHash = Buffer.alloc(32, 0x77);
	blockHash.writeBigUInt64BE(hash, 24);
	const bytes = adapter.encode({
		blockHash: new Uint8Array(blockHash),
		groupIndex,
	});
	return Buffer.from(bytes).toString("hex");
}

type Event = WorkerReport["events"][number];

function stored(hashes: readonly bigint[], more: Partial<Event> = {}): Event {
	return {
		keys: hashes.map((hash) => key(hash)),
		medium: "CPU",
		removed: false,
		ownership: "kvcr",
		...more,
	};
}

function report(worker: string, ...events: Event[]): WorkerReport {
	return {
		worker,
		control_endpoint: `tcp://${worker}:1`,
		router_capabilities: ["router_hint"],
		events,
	};
}

function actions(text: string) {
	return parseHintEnvelope(text).actions.map(
		({ source, hashes, mode, scope }) => ({
			source,
			hashes,
			mode,
			scope,
		}),
	);
}

describe("the composer", () => {
	it("names for each block one source that holds it, and nothing the destination has", () => {
		const reports = [
			report("a", stored([1n, 2n, HUGE])),
			report("b", stored([2n, 3n, 4n])),
			report("c", stored([4n], { ownership: null })),
		];
		expect(
			actions(
				composeEnvelope({ reports, to: "c", entries: [{ mode: "move" }] }),
			),
		).toEqual([
			{
				source: "tcp://a:1",
				hashes: [1n, 2n, HUGE],
				mode: "move",
				scope: "independent",
			},
			{ source: "tcp://b:1", hashes: [3n], mode: "move", scope: "independent" },
		]);
	});

	it("a removal takes away exactly the place it names", () => {
		const twice = report(
			"a",
			stored([1n, 2n]),
			stored([1n, 2n], { ownership: null }),
			stored([1n], { removed: true }),
			stored([2n], { removed: true, ownership: null }),
		);
		const reports = [twice, report("b")];
		expect(
			actions(composeEnvelope({ reports, to: "b", entries: [{}] })),
		).toMatchObject([{ hashes: [2n] }]);
		// The engine's own memory is served to requests, under a pin.
		expect(
			actions(
				composeEnvelope({ reports, to: "b", entries: [{ scope: "request" }] }),
			),
		).toMatchObject([{ hashes: [1n, 2n] }]);
		const strict = { scope: "request", allowFramework: false } as const;
		expect(
			actions(composeEnvelope({ reports, to: "b", entries: [strict] })),
		).toMatchObject([{ hashes: [2n] }]);
	});

	it("blocks on disk or on a GPU cannot be brought", () => {
		const reports = [
			report(
				"a",
				stored([1n], { medium: "GPU", ownership: null }),
				stored([2n], { medium: "STORAGE" }),
			),
			report("b"),
		];
		for (const scope of ["independent", "request"] as const)
			expect(() =>
				composeEnvelope({ reports, to: "b", entries: [{ scope }] }),
			).toThrow(NothingToComposeError);
	});

	it("a worker that cannot resolve hashes is left out, refused by name, or forced", () => {
		const mute = { ...report("a", stored([1n])), router_capabilities: [] };
		const reports = [mute, report("b")];
		const compose = (entry: object) =>
			composeEnvelope({ reports, to: "b", entries: [entry] });
		expect(() => compose({})).toThrow(NothingToComposeError);
		expect(() => compose({ from: "a" })).toThrow(/from must be .*router_hint/);
		expect(actions(compose({ from: "a", force: true }))).toMatchObject([
			{ hashes: [1n] },
		]);
		expect(actions(compose({ scope: "request" }))).toMatchObject([
			{ hashes: [1n] },
		]);
	});

	it("a destination may be told to ask itself, for hashes known and unknown", () => {
		const reports = [report("a", stored([1n]))];
		const text = composeEnvelope({
			reports,
			to: "a",
			entries: [{ from: "a" }, { from: "a", hashes: [99n], mode: "move" }],
		});
		expect(actions(text)).toMatchObject([
			{ source: "tcp://a:1", hashes: [1n], mode: "copy" },
			{ source: "tcp://a:1", hashes: [99n], mode: "move" },
		]);
	});

	it.each([
		[
			"an unknown destination",
			{ to: "z", entries: [{}] },
			/to must be one of the workers "a", got "z"/,
		],
		[
			"an unknown source",
			{ to: "a", entries: [{ from: "z" }] },
			/from must be one of/,
		],
		[
			"hashes of nobody",
			{ to: "a", entries: [{ hashes: [1n] }] },
			/from must be given together with hashes/,
		],
		[
			"no hashes",
			{ to: "a", entries: [{ from: "a", hashes: [] }] },
			/block_hashes/,
		],
	])("refuses %s", (_name, plan, message) => {
		expect(() => composeEnvelope({ reports: [report("a")], ...plan })).toThrow(
			message,
		);
	});

	it.each([
		["{", /x must be JSON/],
		["5", /x must be an object/],
		['{"worker":""}', /x\.worker/],
		[
			JSON.stringify({
				...report("a"),
				events: [{ ...stored([1n]), keys: ["zz"] }],
			}),
			/x\.events\[0\]\.keys\[0\]/,
		],
		[
			JSON.stringify([
				report("a"),
				{ ...report("a"), events: [{ ...stored([]), removed: 1 }] },
			]),
			/x\[1\]\.events\[0\]\.removed/,
		],
	])("refuses the report %s", (text, message) => {
		expect(() => readReports(text, "x")).toThrow(message);
	});

	it.each([
		[{}, /x must be a list/],
		[[{ mode: "steal" }], /x\[0\]\.mode/],
		[[{}, { hashes: ["-1"] }], /x\[1\]\.hashes\[0\]/],
		[[{ hashes: [2 ** 60] }], /x\[0\]\.hashes\[0\]/],
		[[{ hashes: ["18446744073709551616"] }], /x\[0\]\.hashes\[0\]/],
		[[{ limit: 0 }], /x\[0\]\.limit/],
		[[{ colour: 1 }], /x\[0\]\.colour/],
	])("refuses the plan %j", (plan, message) => {
		expect(() => readPlan(plan, "x")).toThrow(message);
	});
});

describe("the command", () => {
	const command = [
		...["--conditions=kvcr-source", "--import", import.meta.resolve("tsx")],
		new URL("./main.ts", import.meta.url).pathname,
	];

	it("writes the envelope to its output, hashes exact", () => {
		const input = JSON.stringify([
			report("a", stored([HUGE, 2n])),
			report("b"),
		]);
		const args = [
			"--inventory",
			"-",
			"--to",
			"b",
			"--limit",
			"1",
			"--mode",
			"move",
		];
		const text = execFileSync(process.execPath, [...command, ...args], {
			input,
			encoding: "utf8",
		});
		expect(text).toContain(String(HUGE));
		expect(actions(text)).toEqual([
			{
				source: "tcp://a:1",
				hashes: [HUGE],
				mode: "move",
				scope: "independent",
			},
		]);
	});

	it("tells nothing to do (1) from unusable input (2)", () => {
		const input = JSON.stringify([report("a"), report("b")]);
		const run = (...args: string[]) =>
			spawnSync(process.execPath, [...command, "--inventory", "-", ...args], {
				input,
				encoding: "utf8",
			});
		const nothing = run("--to", "b");
		expect(nothing).toMatchObject({ status: 1, stdout: "" });
		expect(nothing.stderr).toContain('no worker holds a block that "b" lacks');
		const unusable = run("--to", "b", "--from", "a", "--hash", "x");
		expect(unusable).toMatchObject({ status: 2, stdout: "" });
		expect(unusable.stderr).toContain("hashes[0]");
	});

	it("ignores nothing that it was told", () => {
		const folder = mkdtempSync(join(tmpdir(), "kvcr-compose-"));
		const plan = join(folder, "plan.json");
		const run = (...args: string[]) =>
			spawnSync(process.execPath, [...command, "--to", "b", ...args], {
				input: JSON.stringify([report("a"), report("b")]),
				encoding: "utf8",
			});
		try {
			writeFileSync(plan, "[{");
			const broken = run("--inventory", "-", "--plan", plan);
			expect(broken).toMatchObject({ status: 2, stdout: "" });
			expect(broken.stderr).toContain(`compose: ${plan}: `);
			const both = run("--plan", plan, "--mode", "move");
			expect(both).toMatchObject({ status: 2, stdout: "" });
			expect(both.stderr).toContain("--mode");
			expect(run()).toMatchObject({
				status: 2,
				stderr: "compose: --inventory is missing\n",
			});
		} finally {
			rmSync(folder, { recursive: true });
		}
	});
});
