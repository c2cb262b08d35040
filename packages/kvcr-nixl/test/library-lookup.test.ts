import { execFileSync } from "node:child_process";
import {
	copyFileSync,
	cpSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	rmSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import {
	afterAll,
	beforeAll,
	describe,
	expect,
	it,
	type TestContext,
} from "vitest";
import { type NixlAgentOptions, NixlTransferAgent } from "../src/index.js";
import { LIBRARY_NAME, libraryCandidates } from "../src/locate.js";
import { nativeBinding } from "../src/native.js";
import { libraryPath, missingNixl, runChild } from "./helpers.js";

interface Opened {
	readonly code?: string;
	readonly message?: string;
	readonly memoryEvents?: string;
	readonly info?: { details: Record<string, string> };
}

async function open(
	options: object,
	env: Record<string, string | undefined> = {},
): Promise<Opened> {
	const ended = await runChild("open-only.ts", [JSON.stringify(options)], env);
	expect(ended, ended.stderr).toMatchObject({ code: 0, signal: null });
	const line = ended.stdout
		.split("\n")
		.find((candidate) => candidate.startsWith("{"));
	return JSON.parse(line ?? "{}") as Opened;
}

let scratch: string;
beforeAll(() => {
	scratch = mkdtempSync(join(tmpdir(), "kvcr-nixl-"));
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe.concurrent("without a usable library", () => {
	it("says where it looked and what to type", async () => {
		const opened = await open(
			{},
			{
				KVCR_NIXL_LIBRARY: undefined,
				HOME: scratch,
				VIRTUAL_ENV: undefined,
				CONDA_PREFIX: undefined,
				PYTHONPATH: undefined,
				LD_LIBRARY_PATH: undefined,
			},
		);
		expect(opened.code).toBe("ERR_KVCR_NIXL_NOT_FOUND");
		for (const part of [
			"KVCR_NIXL_LIBRARY",
			"pip install --no-deps nixl-cu12",
			"pip download --no-deps",
			"Python's package folders",
			"the loader's own search path",
		])
			expect(opened.message).toContain(part);
		expect(opened.message).not.toContain("\n");
	});

	it("names the path that was given, by option or environment", () => {
		const path = join(scratch, "nowhere/libnixl_capi.so");
		for (const candidates of [
			() => libraryCandidates("create", path, {}),
			() => libraryCandidates("create", undefined, { KVCR_NIXL_LIBRARY: path }),
		])
			expect(candidates).toThrow(
				expect.objectContaining({
					code: "ERR_KVCR_NIXL_NOT_FOUND",
					message: expect.stringContaining(path),
				}),
			);
	});

	it.each([
		{ reason: "ELOOP", path: () => join(circle(), LIBRARY_NAME) },
		{ reason: "ENAMETOOLONG", path: () => `/${"x".repeat(300)}/nixl` },
		{ reason: "ERR_INVALID_ARG_VALUE", path: () => "/nixl\0" },
	])(
		"takes a path that answers $reason for a place without NIXL",
		({ reason, path }) => {
			const place = path();
			const code = "ERR_KVCR_NIXL_NOT_FOUND";
			expect(() =>
				libraryCandidates("create", undefined, { KVCR_NIXL_LIBRARY: place }),
			).toThrow(
				expect.objectContaining({
					code,
					lookedIn: [`KVCR_NIXL_LIBRARY (${place}): ${reason}`],
				}),
			);
			for (const env of [{ PYTHONPATH: place }, { VIRTUAL_ENV: place }]) {
				const { paths, lookedIn } = libraryCandidates("create", undefined, env);
				expect(paths).toContain(LIBRARY_NAME);
				expect(lookedIn.join()).toContain(place);
				expect(lookedIn.join()).toContain(reason);
			}
		},
	);

	it("refuses a file that is no library", async () => {
		const path = join(scratch, "text.so");
		writeFileSync(path, "not a library");
		expect((await open({ libraryPath: path })).code).toBe(
			"ERR_KVCR_NIXL_LIBRARY",
		);
	});

	it("does not wait for a pipe", async () => {
		const path = join(scratch, "pipe.so");
		execFileSync("mkfifo", [path]);
		const opened = await open({ libraryPath: path });
		expect(opened.code).toBe("ERR_KVCR_NIXL_NOT_FOUND");
		expect(opened.message).toContain("which is no file");
	});

	// The loader sees these as the empty name, and as another library.
	it.each(["\0", "libm.so.6\0x"])(
		"refuses the path %j in the addon, too",
		async (path) => {
			await expect(
				nativeBinding().createAgent(path, "name", () => {}),
			).rejects.toMatchObject({
				code: "NATIVE_LIBRARY",
				message: expect.stringContaining("NUL"),
			});
		},
	);

	it("refuses a library that is not NIXL", async () => {
		const opened = await open({ libraryPath: "libm.so.6" });
		expect(opened.code).toBe("ERR_KVCR_NIXL_LIBRARY");
		expect(opened.message).toContain("nixl_capi_");
	});

	it.each([
		{ name: "" },
		{ name: "a\0b" },
		{ name: "half \ud83d" },
		{ name: "x".repeat(256) },
		{ libraryPath: "" },
		{ libraryPath: "\0" },
		{ libraryPath: "libm.so.6\0x" },
		{ requireRdma: 1 },
		{ closeTimeoutMs: 0 },
		{ closeTimeoutMs: "5" },
		null,
		5,
	])("refuses the options %j", async (options) => {
		await expect(
			NixlTransferAgent.create(options as unknown as NixlAgentOptions),
		).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
	});
});

(missingNixl === undefined ? describe.concurrent : describe.skip)(
	"around a real library",
	() => {
		it("accepts the folder of an unpacked wheel", async () => {
			const opened = await open({ libraryPath: dirname(dirname(libraryPath)) });
			expect(opened.info?.details.library).toBe(libraryPath);
		});

		it("finds an installation by Python's package folders", async () => {
			const opened = await open(
				{},
				{
					KVCR_NIXL_LIBRARY: undefined,
					PYTHONPATH: dirname(dirname(libraryPath)),
				},
			);
			expect(opened.info?.details.library).toBe(libraryPath);
		});

		it("refuses a library of another machine", async () => {
			const path = join(scratch, "foreign.so");
			copyFileSync(libraryPath, path);
			const bytes = readFileSync(path);
			bytes.writeUInt16LE(0xf3, 18); // e_machine: RISC-V
			writeFileSync(path, bytes);
			expect((await open({ libraryPath: path })).code).toBe(
				"ERR_KVCR_NIXL_LIBRARY",
			);
		});

		it("refuses a library that is cut short at any byte", async () => {
			const bytes = readFileSync(libraryPath);
			const path = join(scratch, "cut.so");
			for (const length of [64, 65, 1_000, 4_096, 100_000, 200_000]) {
				writeFileSync(path, bytes.subarray(0, length));
				await expect(
					NixlTransferAgent.create({ libraryPath: path }),
				).rejects.toMatchObject({ code: "ERR_KVCR_NIXL_LIBRARY", path });
			}
		});

		it.each([
			"libnixl.so",
			"plugins/libplugin_UCX.so",
			"../nixl_cu12.libs/libucp-*.so*",
			"../nixl_cu12.libs/ucx/libuct_cma.so*",
		])("refuses a wheel in which %s is cut short", async (pattern) => {
			const root = mkdtempSync(join(scratch, "cut-wheel-"));
			const wheel = dirname(dirname(libraryPath));
			for (const folder of [".nixl_cu12.mesonpy.libs", "nixl_cu12.libs"])
				linkTree(join(wheel, folder), join(root, folder));
			const library = join(root, ".nixl_cu12.mesonpy.libs", LIBRARY_NAME);
			const folder = join(dirname(library), dirname(pattern));
			const [start = ""] = basename(pattern).split("*");
			const name = readdirSync(folder).find((name) => name.startsWith(start));
			const file = join(folder, name ?? "none");
			const bytes = readFileSync(file);
			rmSync(file);
			writeFileSync(file, bytes.subarray(0, bytes.length / 2));
			const attempt = NixlTransferAgent.create({ libraryPath: library });
			await expect(attempt).rejects.toMatchObject({
				code: "ERR_KVCR_NIXL_LIBRARY",
				message: expect.stringContaining(file),
			});
		});

		it("refuses the stub library", async ({ onTestFinished }) => {
			const opened = await open({ libraryPath: stub(onTestFinished) });
			expect(opened.code).toBe("ERR_KVCR_NIXL_LIBRARY");
			expect(opened.message).toContain("stub");
		});

		it("says so when the UCX plugin is missing", async () => {
			const root = join(scratch, "wheel");
			const inside = dirname(libraryPath);
			const folder = join(root, inside.slice(dirname(inside).length + 1));
			mkdirSync(root);
			cpSync(inside, folder, {
				recursive: true,
				filter: (source) => !source.endsWith("libplugin_UCX.so"),
			});
			symlinkSync(
				join(dirname(inside), "nixl_cu12.libs"),
				join(root, "nixl_cu12.libs"),
			);
			const opened = await open({
				libraryPath: join(folder, "libnixl_capi.so"),
			});
			expect(opened.code).toBe("ERR_KVCR_TRANSFER_AGENT");
			expect(opened.message).toContain("libplugin_UCX.so");
		});

		it("turns UCX's memory hooks off, unless the user has chosen", async () => {
			const chosen = async (value: string | undefined) =>
				(await open({}, { UCX_MEM_EVENTS: value })).memoryEvents;
			expect(await chosen(undefined)).toBe("n");
			// Spelled otherwise, so that it can be told apart. With the hooks on, UCX crashes the process now and then, which is
			// why they are off.
			expect(await chosen("no")).toBe("no");
		});

		it("shows what it runs on", async () => {
			const { info } = await open({});
			expect(info).toMatchObject({
				kind: "nixl",
				details: { library: libraryPath },
			});
			expect(info?.details.ucx).toMatch(/^\d+\.\d+/);
		});
	},
);

/** A link that leads to itself. */
function circle(): string {
	const path = join(mkdtempSync(join(scratch, "circle-")), "link");
	symlinkSync(path, path);
	return path;
}

/** The library with its answer to "are you the stub?" turned around. */
function stub(onTestFinished: TestContext["onTestFinished"]): string {
	const bytes = readFileSync(libraryPath);
	const offset = symbolOffset(bytes, "nixl_capi_is_stub");
	// mov eax, 1; ret — or on arm64: mov w0, #1; ret.
	const code =
		process.arch === "arm64"
			? [0x20, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6]
			: [0xb8, 0x01, 0x00, 0x00, 0x00, 0xc3];
	Buffer.from(code).copy(bytes, offset);
	// Beside the original, whose relative paths it needs.
	const path = join(dirname(libraryPath), `stub-${process.pid}.so`);
	writeFileSync(path, bytes);
	onTestFinished(() => rmSync(path, { force: true }));
	return path;
}

/** A copy of a folder that takes no room: the files are links. */
function linkTree(from: string, to: string): void {
	mkdirSync(to);
	for (const entry of readdirSync(from, { withFileTypes: true })) {
		const [source, target] = [join(from, entry.name), join(to, entry.name)];
		if (entry.isDirectory()) linkTree(source, target);
		else symlinkSync(source, target);
	}
}

/** Where the code of a dynamic symbol lies in an ELF file of 64 bits. */
function symbolOffset(elf: Buffer, name: string): number {
	const sections = Number(elf.readBigUInt64LE(40));
	const count = elf.readUInt16LE(60);
	const section = (i: number) => {
		const at = sections + i * 64;
		const word = (offset: number) => Number(elf.readBigUInt64LE(at + offset));
		return {
			type: elf.readUInt32LE(at + 4),
			address: word(16),
			offset: word(24),
			size: word(32),
			link: elf.readUInt32LE(at + 40),
		};
	};
	const all = Array.from({ length: count }, (_, i) => section(i));
	const symbols = all.find(({ type }) => type === 11);
	if (symbols === undefined) throw new Error("no dynamic symbols");
	const strings = all[symbols.link] as ReturnType<typeof section>;
	for (let at = symbols.offset; at < symbols.offset + symbols.size; at += 24) {
		const start = strings.offset + elf.readUInt32LE(at);
		const end = elf.indexOf(0, start);
		if (elf.toString("latin1", start, end) !== name) continue;
		const value = Number(elf.readBigUInt64LE(at + 8));
		const home = all.find(
			({ address, size, type }) =>
				type !== 8 && value >= address && value < address + size && address > 0,
		);
		if (home === undefined) break;
		return home.offset + (value - home.address);
	}
	throw new Error(`no symbol ${name}`);
}
