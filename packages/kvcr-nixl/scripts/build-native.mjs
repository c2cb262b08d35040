/**
 * Builds the addon in `native/` into `prebuilds/`. This machine's is also left in `build/Release`, where it is found
 * before any prebuild unless `PREBUILDS_ONLY` is set; that folder is not published.
 *
 * `node scripts/build-native.mjs` makes the artefact of this machine. `--all` makes every published one; a compiler that
 * is missing is an error. `--available` makes those that there is a compiler for. An artefact that is made of what it
 * would be made of is left alone.
 *
 * The headers come from the `node-api-headers` package, laid out as the folder node-gyp expects: the build is the same
 * on every machine, needs no download, and cannot use anything outside Node-API by accident.
 */
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
	copyFileSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	statSync,
	writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const packageDir = dirname(dirname(fileURLToPath(import.meta.url)));
const nativeDir = join(packageDir, "..", "..", "native");
const workDir = join(packageDir, "build", "native");

/** Published artefacts and how to compile each. */
const targets = {
	x64: { prefix: "x86_64-linux-gnu-" },
	arm64: { prefix: "aarch64-linux-gnu-" },
};

const available = process.argv.includes("--available");
const all = available || process.argv.includes("--all");
if (process.platform !== "linux") {
	console.log("kvcr-nixl: NIXL runs on Linux only; nothing to build here");
	process.exit(0);
}
for (const arch of all ? Object.keys(targets) : [process.arch])
	await build(arch);

async function build(arch) {
	const target = targets[arch];
	if (target === undefined) fail(`there is no target for ${arch}`);
	const artefact = join(
		packageDir,
		"prebuilds",
		`linux-${arch}`,
		"kvcr-nixl.node",
	);
	const local =
		arch === process.arch
			? join(packageDir, "build", "Release", "kvcr_nixl.node")
			: undefined;
	const stamp = join(workDir, `${arch}.stamp`);
	const fingerprint = sourcesFingerprint();
	if (
		existsSync(artefact) &&
		(local === undefined || existsSync(local)) &&
		existsSync(stamp) &&
		readFileSync(stamp, "utf8") === fingerprint
	) {
		console.log(`kvcr-nixl: prebuilds/linux-${arch} is up to date`);
		return;
	}
	const prefix = arch === process.arch ? "" : target.prefix;
	if (!works(`${prefix}g++`)) {
		const problem = `${prefix}g++ is needed to build for linux-${arch} (Debian: apt-get install g++${prefix && `-${prefix.slice(0, -1)}`})`;
		if (!available) fail(problem);
		console.log(`kvcr-nixl: ${problem}; skipped`);
		return;
	}
	// A folder of its own, and a rename at the end: two builds at once do not disturb each other, and whoever loads the
	// artefact meanwhile sees the old one or the new one.
	mkdirSync(workDir, { recursive: true });
	const work = mkdtempSync(join(workDir, `${arch}-`));
	try {
		cpSync(nativeDir, work, { recursive: true });
		writeFileSync(
			join(work, "package.json"),
			JSON.stringify({ name: "kvcr-nixl" }),
		);
		await run(
			process.execPath,
			[
				require.resolve("prebuildify/bin.js"),
				"--napi",
				"--strip",
				"--target=20.0.0",
				`--arch=${arch}`,
			],
			{
				cwd: work,
				env: {
					...process.env,
					CC: `${prefix}gcc`,
					CXX: `${prefix}g++`,
					LINK: `${prefix}g++`,
					AR: `${prefix}ar`,
					MAKEFLAGS: "-j2",
					PREBUILD_STRIP_BIN: `${prefix}strip`,
					PREBUILD_NODE_GYP: join(
						packageDir,
						"node_modules",
						".bin",
						"node-gyp",
					),
					npm_config_nodedir: nodeDir(work),
					KVCR_NODE_ADDON_API: dirname(
						require.resolve("node-addon-api/package.json"),
					),
				},
			},
		);
		const built = join(work, "prebuilds", `linux-${arch}`, "kvcr-nixl.node");
		mkdirSync(dirname(artefact), { recursive: true });
		if (local !== undefined) {
			mkdirSync(dirname(local), { recursive: true });
			copyFileSync(built, join(work, "local.node"));
			renameSync(join(work, "local.node"), local);
		}
		renameSync(built, artefact);
		writeFileSync(stamp, fingerprint);
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
	console.log(`kvcr-nixl: built prebuilds/linux-${arch}`);
}

/** A development folder of Node.js that holds Node-API and nothing else. */
function nodeDir(work) {
	const dir = join(work, "node-headers");
	const include = join(dir, "include", "node");
	mkdirSync(include, { recursive: true });
	cpSync(
		join(dirname(require.resolve("node-api-headers/package.json")), "include"),
		include,
		{ recursive: true },
	);
	writeFileSync(
		join(include, "config.gypi"),
		JSON.stringify({ target_defaults: {}, variables: {} }),
	);
	writeFileSync(
		join(include, "common.gypi"),
		JSON.stringify({
			target_defaults: {
				default_configuration: "Release",
				configurations: { Release: {}, Debug: {} },
				cflags: ["-fPIC"],
				ldflags: [],
			},
		}),
	);
	return dir;
}

/** Changes whenever a source, the recipe or a build dependency does. */
function sourcesFingerprint() {
	const hash = createHash("sha256");
	const files = [
		fileURLToPath(import.meta.url),
		join(nativeDir, "binding.gyp"),
		...readdirSync(join(nativeDir, "src"))
			.sort()
			.map((name) => join(nativeDir, "src", name)),
		require.resolve("node-addon-api/package.json"),
		require.resolve("node-api-headers/package.json"),
	];
	for (const file of files) {
		if (statSync(file).isFile())
			hash.update(file.slice(packageDir.length)).update(readFileSync(file));
	}
	return hash.digest("hex");
}

function works(compiler) {
	try {
		execFileSync(compiler, ["--version"], { stdio: "ignore" });
		return true;
	} catch {
		return false;
	}
}

function run(file, args, options) {
	return new Promise((resolve, reject) => {
		execFile(
			file,
			args,
			{ ...options, maxBuffer: 64 << 20 },
			(error, stdout, stderr) => {
				if (error === null) return resolve();
				process.stderr.write(stdout + stderr);
				reject(error);
			},
		);
	});
}

function fail(message) {
	console.error(`kvcr-nixl: ${message}`);
	process.exit(1);
}
