import {
	chmodSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BootstrapError, type Context } from "../lib/part.mjs";
import { crossCompiler } from "./cross-compiler.mjs";
import { nativeTools } from "./native-tools.mjs";
import { natsServer } from "./nats-server.mjs";
import { nixl } from "./nixl.mjs";
import { verbsLibraries } from "./verbs-libraries.mjs";

const linux = process.platform === "linux";

let folder: string;
let context: Context;
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "kvcr-parts-"));
	mkdirSync(join(folder, "bin"));
	context = {
		root: folder,
		cache: join(folder, "cache"),
		env: { PATH: join(folder, "bin"), LOG: join(folder, "log") },
		log: () => {},
	};
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Puts a shell script in `PATH`, which has nothing else in it. */
function program(name: string, script: string) {
	const file = join(folder, "bin", name);
	writeFileSync(file, `#!/bin/sh\nPATH=/bin:/usr/bin\n${script}\n`);
	chmodSync(file, 0o755);
}

/** A python3 whose pip fetches a wheel and which unpacks it to a tree with this file in it. */
function python(file: string, download = "touch some.whl") {
	program(
		"python3",
		`case "$2" in
			pip) [ "$3" = download ] || exit 0; ${download};;
			zipfile) mkdir -p "$5/$(dirname '${file}')" && touch "$5/${file}";;
		esac`,
	);
}

describe.runIf(linux)("NIXL", () => {
	const library = ".nixl_cu12.mesonpy.libs/libnixl_capi.so";

	test("is unpacked with its tree as it is, once, and named in the environment", async () => {
		python(library);
		const outcome = await nixl.ensure(context);
		expect(outcome).toMatchObject({
			status: "ready",
			env: { KVCR_NIXL_LIBRARY: expect.stringContaining(library) },
		});
		program("python3", "exit 1");
		expect(await nixl.ensure(context)).toEqual(outcome);
		expect(readdirSync(join(context.cache, "nixl"))).toHaveLength(1);
	});

	test("takes an empty choice of library for none", async () => {
		python(library);
		context.env.KVCR_NIXL_LIBRARY = "";
		expect(await nixl.ensure(context)).toMatchObject({
			env: { KVCR_NIXL_LIBRARY: expect.stringContaining(library) },
		});
	});

	test("leaves a library alone that somebody chose", async () => {
		python(library);
		context.env.KVCR_NIXL_LIBRARY = "/opt/my/libnixl_capi.so";
		expect(await nixl.ensure(context)).toMatchObject({
			env: { KVCR_NIXL_LIBRARY: "/opt/my/libnixl_capi.so" },
		});
	});

	test("is skipped with the reason where Python or pip is missing", async () => {
		expect(await nixl.ensure(context)).toEqual({
			status: "skipped",
			reason: "no python3 in PATH",
		});
		program("python3", "exit 1");
		expect(await nixl.ensure(context)).toMatchObject({
			status: "skipped",
			reason: expect.stringContaining("pip"),
		});
	});

	test.each([
		["cannot be downloaded", library, "echo no such version; exit 1"],
		["has no library in it", "something/else.so", "touch some.whl"],
	])(
		"that %s is an error and leaves nothing behind",
		async (_what, file, download) => {
			python(file, download);
			await expect(nixl.ensure(context)).rejects.toThrow(BootstrapError);
			expect(readdirSync(join(context.cache, "nixl"))).toEqual([]);
		},
	);
});

describe("a NATS server", () => {
	const server = "echo nats-server: v2.9.10";

	test("in PATH is used", async () => {
		program("nats-server", server);
		expect(await natsServer.ensure(context)).toEqual({
			status: "ready",
			detail: "nats-server: v2.9.10",
			env: { KVCR_NATS_SERVER: join(folder, "bin/nats-server") },
		});
	});

	test("is unpacked into the cache, with fresh lists when the old ones do not have it", async () => {
		program(
			"apt-get",
			`case "$*" in
				*update) touch "$LOG";;
				*) [ -e "$LOG" ] && touch nats-server.deb;;
			esac`,
		);
		program(
			"dpkg-deb",
			`mkdir -p "$3/usr/sbin" && printf '#!/bin/sh\\n${server}\\n' > "$3/usr/sbin/nats-server" && chmod +x "$3/usr/sbin/nats-server"`,
		);
		const unpacked = join(context.cache, "nats-server/usr/sbin/nats-server");
		expect(await natsServer.ensure(context)).toMatchObject({
			status: "ready",
			env: { KVCR_NATS_SERVER: unpacked },
		});
		program("apt-get", "exit 1");
		expect((await natsServer.ensure(context)).status).toBe("ready");
	});

	test("is skipped without apt, and an error when apt cannot fetch it", async () => {
		expect((await natsServer.ensure(context)).status).toBe("skipped");
		program("apt-get", "echo unreachable; exit 100");
		program("dpkg-deb", "");
		await expect(natsServer.ensure(context)).rejects.toThrow(/unreachable/);
		expect(existsSync(join(context.cache, "nats-server"))).toBe(false);
	});

	test("that does not run is skipped", async () => {
		program("nats-server", "exit 126");
		expect((await natsServer.ensure(context)).status).toBe("skipped");
	});
});

describe.runIf(linux)("the distribution's RDMA libraries", () => {
	/** An apt-get that fetches what it is asked for, and a dpkg-deb that unpacks it to an empty file. */
	function debian(file: (name: string) => string) {
		program(
			"apt-get",
			'while [ "$1" != download ]; do shift; done; shift; for name; do touch "$name.deb"; done',
		);
		program(
			"dpkg-deb",
			`case "$2" in
				${["libibverbs1", "libnl-3-200", "libnl-route-3-200"]
					.map((name) => `${name}.deb) file=${file(name)};;`)
					.join("\n")}
				*) exit 0;;
			esac
			mkdir -p "$3/$(dirname "$file")" && touch "$3/$file"`,
		);
	}

	const there: Record<string, string> = {
		libibverbs1: "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
		"libnl-route-3-200": "usr/lib/x86_64-linux-gnu/libnl-route-3.so.200",
		"libnl-3-200": "lib/x86_64-linux-gnu/libnl-3.so.200",
	};

	test("are unpacked below the cache, once, and their folders named in the environment", async () => {
		debian((name) => there[name] as string);
		const home = join(context.cache, "verbs-libraries");
		const outcome = await verbsLibraries.ensure(context);
		expect(outcome).toMatchObject({
			status: "ready",
			env: {
				KVCR_VERBS_LIBRARIES: ["usr/lib", "lib"]
					.map((folder) => join(home, folder, "x86_64-linux-gnu"))
					.join(":"),
			},
		});
		program("apt-get", "exit 1");
		expect(await verbsLibraries.ensure(context)).toEqual(outcome);
	});

	test("are skipped without apt, and an error when something is missing", async () => {
		expect((await verbsLibraries.ensure(context)).status).toBe("skipped");
		debian((name) =>
			name === "libnl-3-200" ? "lib/README" : (there[name] as string),
		);
		await expect(verbsLibraries.ensure(context)).rejects.toThrow(
			/libnl-3\.so\.200/,
		);
	});
});

describe("compilers", () => {
	test("that are there are used", async () => {
		for (const name of ["c++", "make", "python3", "aarch64-linux-gnu-g++"])
			program(name, "");
		expect((await nativeTools.ensure(context)).status).toBe("ready");
		expect((await crossCompiler.ensure(context)).status).toBe("ready");
	});

	test.runIf(process.arch === "x64")(
		"that are not, without apt, are skipped by name",
		async () => {
			expect(await nativeTools.ensure(context)).toMatchObject({
				status: "skipped",
				reason: expect.stringContaining("c++, make, python3"),
			});
			expect(await crossCompiler.ensure(context)).toMatchObject({
				status: "skipped",
				reason: expect.stringContaining("aarch64-linux-gnu-g++"),
			});
		},
	);

	test.runIf(process.getuid?.() === 0 && process.arch === "x64")(
		"are installed by root, without recommended packages",
		async () => {
			program(
				"apt-get",
				'case "$*" in *--no-install-recommends*) echo "$*" > "$LOG";; esac',
			);
			expect((await crossCompiler.ensure(context)).status).toBe("ready");
			expect(existsSync(join(folder, "log"))).toBe(true);
			program("apt-get", "echo held back; exit 100");
			await expect(crossCompiler.ensure(context)).rejects.toThrow(/held back/);
		},
	);
});
