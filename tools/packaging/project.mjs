/**
 * An empty project outside the workspace, as a user would have it: npm installs into it, programs run in it. Its `PATH`
 * holds node, npm and a shell, so nothing can be compiled.
 */
import {
	cpSync,
	existsSync,
	mkdirSync,
	readdirSync,
	readFileSync,
	symlinkSync,
	writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { run, tail, which } from "../bootstrap/lib/exec.mjs";
import { cache } from "../bootstrap/lib/paths.mjs";

const INSTALL_TIMEOUT_MS = 90_000;
const PROGRAM_TIMEOUT_MS = 30_000;

/** The module systems that programs are compiled for, by the folder each lives in. */
export const moduleSystems = /** @type {const} */ ({
	esm: "module",
	cjs: "commonjs",
});

/**
 * @typedef {object} Installed
 * @property {string} path within `node_modules`, `/node_modules/` between levels
 * @property {string} name
 * @property {string} version
 * @property {string} resolved where it came from
 * @property {boolean} scripts whether it runs something when installed
 */

/**
 * Makes a folder with the few programs that projects get to see.
 *
 * @param {string} folder
 * @throws Error when one of them is missing
 */
export function makeBin(folder) {
	mkdirSync(folder, { recursive: true });
	symlinkSync(process.execPath, join(folder, "node"));
	for (const name of ["npm", "sh"]) {
		const file = which(name);
		if (file === undefined) throw new Error(`${name} is not in PATH`);
		symlinkSync(file, join(folder, name));
	}
	return folder;
}

export class Project {
	/** @type {string} */
	folder;
	/** @type {NodeJS.ProcessEnv} */
	#env;

	/**
	 * @param {string} folder to be made
	 * @param {string} bin see {@link makeBin}
	 */
	constructor(folder, bin) {
		this.folder = folder;
		/** @type {NodeJS.ProcessEnv} */
		const env = {};
		// Nothing of the workspace: no export conditions, no settings of an npm that started the tests.
		for (const [name, value] of Object.entries(process.env))
			if (
				!/^(npm_(?!config_(registry|cafile|.*proxy)$)|NODE_|PNPM_)/i.test(name)
			)
				env[name] = value;
		this.#env = {
			...env,
			PATH: bin,
			npm_config_cache: join(cache, "npm"),
			npm_config_update_notifier: "false",
		};
		for (const [name, type] of Object.entries(moduleSystems)) {
			mkdirSync(join(folder, name), { recursive: true });
			writeJson(join(folder, name, "package.json"), { type });
		}
		writeJson(join(folder, "package.json"), {
			name: "an-application",
			version: "1.0.0",
			private: true,
		});
	}

	/**
	 * Installs with npm: archives by path, others by name.
	 *
	 * @param {readonly string[]} specs
	 * @returns {Promise<string[]>} problems
	 */
	async install(specs) {
		const { code, output } = await run(
			join(this.#env.PATH ?? "", "npm"),
			[
				...["install", "--no-audit", "--no-fund", "--prefer-offline"],
				...["--fetch-retries=3", "--fetch-timeout=20000", ...specs],
			],
			{ cwd: this.folder, env: this.#env, timeoutMs: INSTALL_TIMEOUT_MS },
		);
		return code === 0 ? [] : [tail(output, 30)];
	}

	/**
	 * What npm installed.
	 *
	 * @returns {Installed[]}
	 */
	tree() {
		const lock = JSON.parse(
			readFileSync(join(this.folder, "package-lock.json"), "utf8"),
		);
		return Object.entries(lock.packages)
			.filter(([path]) => path !== "")
			.map(([path, entry]) => ({
				path: path.replace(/^node_modules\//, ""),
				name: path.replace(/^.*node_modules\//, ""),
				version: entry.version,
				resolved: entry.resolved ?? "",
				scripts: entry.hasInstallScript === true,
			}));
	}

	/** Native files in `node_modules`. */
	nativeFiles() {
		return readdirSync(join(this.folder, "node_modules"), {
			recursive: true,
			encoding: "utf8",
		}).filter((file) => file.endsWith(".node"));
	}

	/**
	 * Copies TypeScript sources to both module systems.
	 *
	 * @param {readonly string[]} files
	 */
	addSources(files) {
		for (const system of Object.keys(moduleSystems))
			for (const file of files)
				cpSync(file, join(this.folder, system, basename(file)));
	}

	/**
	 * Runs a program that was compiled here.
	 *
	 * @param {string} file relative to the project
	 * @param {NodeJS.ProcessEnv} [env] more of it
	 * @returns {Promise<string[]>} problems: it must end by itself, well, and say "ok" last
	 */
	async run(file, env = {}) {
		if (!existsSync(join(this.folder, file)))
			return [`${file} was not compiled`];
		const { code, output } = await run(process.execPath, [file], {
			cwd: this.folder,
			env: { ...this.#env, ...env },
			timeoutMs: PROGRAM_TIMEOUT_MS,
		});
		return code === 0 && /(^|\n)ok\n$/.test(output) ? [] : [tail(output, 30)];
	}
}

/**
 * @param {string} file
 * @param {unknown} value
 */
function writeJson(file, value) {
	writeFileSync(file, `${JSON.stringify(value, null, "\t")}\n`);
}
