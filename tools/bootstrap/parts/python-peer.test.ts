import {
	chmodSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BootstrapError, type Context } from "../lib/part.mjs";
import { pythonPeer } from "./python-peer.mjs";

let folder: string;
let context: Context;
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "kvcr-python-peer-"));
	mkdirSync(join(folder, "bin"));
	context = {
		root: folder,
		cache: join(folder, "cache"),
		env: { PATH: join(folder, "bin"), LOG: join(folder, "log") },
		log: () => {},
	};
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A python3 that makes environments whose Python runs `check`, and whose pip runs `install`. */
function python3(
	check = "echo Python 3.11.7",
	install = 'echo "$@" >> "$LOG"',
): void {
	const file = join(folder, "bin/python3");
	writeFileSync(
		file,
		`#!/bin/sh
PATH=/bin:/usr/bin
case "$2 $3" in
	"pip --version") ;;
	"venv "*) mkdir -p "$4/bin"; printf '#!/bin/sh\\nPATH=/bin:/usr/bin\\n${check}\\n' > "$4/bin/python"; chmod +x "$4/bin/python";;
	*) ${install};;
esac
`,
	);
	chmodSync(file, 0o755);
}

describe.runIf(process.platform === "linux")("the Python peer", () => {
	test("is installed once, from wheels only and without what its packages ask for, and named in the environment", async () => {
		python3();
		const outcome = await pythonPeer.ensure(context);
		expect(outcome).toMatchObject({
			status: "ready",
			detail: "kvcr==0.1.1, Python 3.11.7",
			env: {
				KVCR_PYTHON_PEER: expect.stringMatching(/kvcr-0\.1\.1\/bin\/python$/),
			},
		});
		const [first = "", second = "", ...more] = readFileSync(
			join(folder, "log"),
			"utf8",
		)
			.trim()
			.split("\n");
		expect(first).toContain("--no-deps kvcr==0.1.1 nixl==1.5.0");
		expect(second).not.toContain("--no-deps");
		for (const line of [first, second])
			expect(line).toContain("--only-binary=:all:");
		expect(more).toEqual([]);
		rmSync(join(folder, "bin/python3"));
		expect(await pythonPeer.ensure(context)).toEqual(outcome);
	});

	test("leaves a Python alone that somebody chose", async () => {
		python3();
		const chosen = join(folder, "python");
		writeFileSync(chosen, "#!/bin/sh\necho Python 3.13.0\n");
		chmodSync(chosen, 0o755);
		context.env.KVCR_PYTHON_PEER = chosen;
		expect(await pythonPeer.ensure(context)).toMatchObject({
			detail: "kvcr==0.1.1, Python 3.13.0",
			env: { KVCR_PYTHON_PEER: chosen },
		});
	});

	test("is skipped with the reason without Python, and when it does not load", async () => {
		expect(await pythonPeer.ensure(context)).toEqual({
			status: "skipped",
			reason: "no python3 in PATH",
		});
		python3("echo no module named nixl; exit 1");
		expect(await pythonPeer.ensure(context)).toMatchObject({
			status: "skipped",
			reason: expect.stringContaining("no module named nixl"),
		});
	});

	test("that cannot be installed is an error and leaves nothing behind", async () => {
		python3("exit 1", "echo no matching distribution; exit 1");
		await expect(pythonPeer.ensure(context)).rejects.toThrow(BootstrapError);
		await expect(pythonPeer.ensure(context)).rejects.toThrow(
			/no matching distribution/,
		);
		expect(readdirSync(join(context.cache, "python-peer"))).toEqual([]);
	});
});
