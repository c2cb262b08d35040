/**
 * A lock between processes: a file that names its holder. A holder that died without letting go
 * is noticed (its process is gone, or its number now belongs to a younger process) and replaced.
 */
import {
	mkdirSync,
	readFileSync,
	renameSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BootstrapError } from "./part.mjs";

/** How often a waiting process looks again, in milliseconds. */
const LOOK_AGAIN_MS = 200;

/**
 * @typedef {object} LockOptions
 * @property {number} waitMs how long to wait for another holder before giving up
 * @property {(line: string) => void} log told once that there is somebody to wait for
 */

/**
 * Runs `work` while this process holds the lock.
 *
 * @template T
 * @param {string} file
 * @param {LockOptions} options
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(file, options, work) {
	const release = await acquire(file, options);
	process.once("exit", release);
	try {
		return await work();
	} finally {
		process.removeListener("exit", release);
		release();
	}
}

/**
 * @param {string} file
 * @param {LockOptions} options
 * @returns {Promise<() => void>}
 */
async function acquire(file, options) {
	mkdirSync(dirname(file), { recursive: true });
	const mine = `${process.pid} ${birth(process.pid) ?? "-"}`;
	const giveUp = Date.now() + options.waitMs;
	let told = false;
	for (;;) {
		try {
			writeFileSync(file, mine, { flag: "wx" });
			return () => {
				if (read(file) === mine) rmSync(file, { force: true });
			};
		} catch (error) {
			if (codeOf(error) !== "EEXIST") throw error;
		}
		const holder = read(file);
		if (holder !== undefined && !isAlive(holder)) {
			removeStale(file, holder);
			continue;
		}
		const pid = holder?.split(" ")[0] ?? "unknown";
		if (!told) {
			options.log(`waiting for process ${pid}, which holds ${file}`);
			told = true;
		}
		if (Date.now() > giveUp)
			throw new BootstrapError(
				`Process ${pid} has held ${file} for over ${Math.round(options.waitMs / 1000)} s. ` +
					"If it does not belong to a run of this repository, delete that file and try again.",
			);
		await sleep(LOOK_AGAIN_MS);
	}
}

/**
 * Moves the file aside first: of several processes that saw the same dead holder, one succeeds,
 * and whoever moved a fresh lock by mistake sees that and puts it back.
 *
 * @param {string} file
 * @param {string} holder
 */
function removeStale(file, holder) {
	const aside = `${file}.${process.pid}`;
	try {
		renameSync(file, aside);
	} catch {
		return;
	}
	if (read(aside) === holder) rmSync(aside, { force: true });
	else renameSync(aside, file);
}

/** @param {string} holder the text of a lock file */
function isAlive(holder) {
	const [pidText, born] = holder.split(" ");
	const pid = Number(pidText);
	// A lock that is empty was created this instant and is being written.
	if (!Number.isInteger(pid) || pid <= 0) return true;
	try {
		process.kill(pid, 0);
	} catch (error) {
		if (codeOf(error) === "ESRCH") return false;
	}
	const now = birth(pid);
	return born === "-" || now === undefined || now === born;
}

/**
 * When a process started, in clock ticks since boot, where the system tells (Linux).
 *
 * @param {number} pid
 */
function birth(pid) {
	try {
		const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
		return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
	} catch {
		return undefined;
	}
}

/** @param {string} file */
function read(file) {
	try {
		return readFileSync(file, "utf8");
	} catch {
		return undefined;
	}
}

/** @param {unknown} error */
function codeOf(error) {
	return error instanceof Error && "code" in error ? error.code : undefined;
}
