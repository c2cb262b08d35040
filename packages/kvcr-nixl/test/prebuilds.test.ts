import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const folder = join(import.meta.dirname, "..");

/** ELF machine numbers by architecture, and the oldest C library that Node.js 20 runs on. */
const machines = { x64: 62, arm64: 183 } as const;
const oldestGlibc = [2, 28];
const oldestGlibcxx = [3, 4, 25];

for (const [arch, machine] of Object.entries(machines)) {
	const path = join(folder, "prebuilds", `linux-${arch}`, "kvcr-nixl.node");
	const needed = arch === process.arch || process.env.CI !== undefined;
	describe.skipIf(!needed && !existsSync(path))(`linux-${arch}`, () => {
		it("is built for its machine", () => {
			const elf = readFileSync(path);
			expect(elf.toString("latin1", 0, 4)).toBe("\x7fELF");
			expect(elf.readUInt16LE(18)).toBe(machine);
		});

		it("needs no newer system library than Node.js itself", () => {
			const text = readFileSync(path, "latin1");
			expect(newest(text, /GLIBC_(\d+(?:\.\d+)+)/g)).toSatisfy(
				(version: number[]) => compare(version, oldestGlibc) <= 0,
			);
			expect(newest(text, /GLIBCXX_(\d+(?:\.\d+)+)/g)).toSatisfy(
				(version: number[]) => compare(version, oldestGlibcxx) <= 0,
			);
		});
	});
}

describe("the published package", () => {
	it("holds artefacts and JavaScript, and nothing that would be compiled", () => {
		const packed = JSON.parse(
			execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
				cwd: folder,
				encoding: "utf8",
				stdio: ["ignore", "pipe", "ignore"],
			}),
		) as { files: { path: string }[] }[];
		const files = packed[0]?.files.map((file) => file.path) ?? [];
		expect(files).toContain(`prebuilds/linux-${process.arch}/kvcr-nixl.node`);
		expect(
			files.filter(
				(file) =>
					!/^(dist|prebuilds)\/|^(package\.json|README\.md|LICENSE)$/.test(
						file,
					),
			),
		).toEqual([]);
	});

	it("loads its artefact with no compiler in PATH", () => {
		const output = execFileSync(
			process.execPath,
			[
				"-p",
				`Object.keys(require("node-gyp-build")(${JSON.stringify(folder)})).sort().join()`,
			],
			{
				cwd: folder,
				encoding: "utf8",
				env: { PATH: "/nonexistent", PREBUILDS_ONLY: "1" },
			},
		);
		expect(output.trim()).toBe("createAgent,detach,environment");
	});
});

function newest(text: string, pattern: RegExp): number[] {
	const versions = [...text.matchAll(pattern)].map((match) =>
		(match[1] as string).split(".").map(Number),
	);
	expect(versions.length).toBeGreaterThan(0);
	return versions.sort(compare).at(-1) as number[];
}

function compare(a: readonly number[], b: readonly number[]): number {
	for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
		const difference = (a[i] ?? 0) - (b[i] ?? 0);
		if (difference !== 0) return difference;
	}
	return 0;
}
